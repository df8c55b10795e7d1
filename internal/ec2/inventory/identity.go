package inventory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

const (
	// accountFlight is the one key of an identity's single flight.
	accountFlight = "account"
	// LongestFailure bounds for how many sweep intervals a failure to learn the account is taken as read: where STS cannot
	// be reached at all, a call every minute is enough.
	LongestFailure = 2
)

// errOtherAccount: the credentials came to lead to another account while EC2 was being read.
var errOtherAccount = &awsapi.Error{Class: awsapi.Transient, Text: "the credentials have just come to lead to another AWS account"}

// identity knows to which AWS account a set of credentials leads. STS is asked once for each access key: the SDK's default
// chain hands out another one every hour or so, and not always of the same account.
type identity struct {
	sts         awsapi.STSAPI
	credentials aws.CredentialsProvider
	clock       clock.PassiveClock
	interval    time.Duration
	flights     singleflight.Group

	mu      sync.Mutex
	key     string // the access key's id that account belongs to; empty before the first answer
	account string
	checked time.Time // when the access key was last compared
	failure error     // why the account is not known at the moment; nil when it is, or was never asked for
	failed  time.Time
	pause   time.Duration // for how long failure is taken as read
}

// remembered is the last answer, good or bad, as long as it may be taken as read.
func (i *identity) remembered() (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	switch {
	case i.failure != nil && now.Sub(i.failed) < i.pause:
		return "", i.failure
	case i.failure == nil && i.account != "" && now.Sub(i.checked) < i.interval:
		return i.account, nil
	}
	return "", nil
}

// look compares the access key with the one whose account is known, and asks STS when it is another. The look outlives a
// caller who gives up.
func (i *identity) look(ctx context.Context) (string, error) {
	done := i.flights.DoChan(accountFlight, func() (any, error) { return i.ask(context.WithoutCancel(ctx)) })
	select {
	case result := <-done:
		id, _ := result.Val.(string)
		return id, result.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ask needs no deadline of its own: every call has one, see awsapi.Config.
func (i *identity) ask(ctx context.Context) (string, error) {
	now := i.clock.Now()
	secret, err := i.credentials.Retrieve(ctx)
	if err != nil {
		return "", i.fail(err)
	}
	i.mu.Lock()
	if i.key == secret.AccessKeyID {
		defer i.mu.Unlock()
		i.checked, i.failure, i.pause = now, nil, 0
		return i.account, nil
	}
	i.mu.Unlock()
	answer, err := i.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err == nil && aws.ToString(answer.Account) == "" {
		err = errors.New("STS answered without an account")
	}
	if err != nil {
		return "", i.fail(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.account = secret.AccessKeyID, aws.ToString(answer.Account)
	i.checked, i.failure, i.pause = now, nil, 0
	return i.account, nil
}

// fail remembers a failure, for twice as long each time.
func (i *identity) fail(err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pause = min(max(2*i.pause, i.interval/RetryPart), LongestFailure*i.interval)
	i.failure, i.failed = err, i.clock.Now()
	return err
}

// known is the account, if it was ever asked for, after a comparison of the access key; empty when it is not known.
func (i *identity) known(ctx context.Context) string {
	i.mu.Lock()
	skip := i.key == "" || i.failure != nil && i.clock.Since(i.failed) < i.pause
	i.mu.Unlock()
	if skip {
		return ""
	}
	id, err := i.look(ctx)
	if err != nil {
		return "" // what EC2 itself answers decides
	}
	return id
}
