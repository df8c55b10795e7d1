package ec2

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
)

const (
	// accountFlight is the one key of whose's single flight.
	accountFlight = "account"
	// longestFailure bounds for how many sweep intervals a failure to learn the account is taken as read: where STS cannot
	// be reached at all, a call every minute is enough.
	longestFailure = 2
)

// errOtherAccount: the credentials came to lead to another account while EC2 was being read.
var errOtherAccount = &Error{Class: Transient, Text: "the credentials have just come to lead to another AWS account"}

// whose knows to which AWS account a set of credentials leads. STS is asked once for each access key: the SDK's default
// chain hands out another one every hour or so, and not always of the same account.
type whose struct {
	sts         STSAPI
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

// AccountID is the AWS account in which everything that this Cloud makes is made. It comes from memory, where the
// background sweep keeps it: a call is made at the first use, and when the credentials have been exchanged since.
//
// After a failure the same error is returned without a call for a while.
func (c *Cloud) AccountID(ctx context.Context) (string, error) {
	id, err := c.whose.remembered()
	if id == "" && err == nil {
		id, err = c.whose.look(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("ask AWS whose account it is: %w", err)
	}
	return id, nil
}

// remembered is the last answer, good or bad, as long as it may be taken as read.
func (w *whose) remembered() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	switch {
	case w.failure != nil && now.Sub(w.failed) < w.pause:
		return "", w.failure
	case w.failure == nil && w.account != "" && now.Sub(w.checked) < w.interval:
		return w.account, nil
	}
	return "", nil
}

// look compares the access key with the one whose account is known, and asks STS when it is another. The look outlives a
// caller who gives up.
func (w *whose) look(ctx context.Context) (string, error) {
	done := w.flights.DoChan(accountFlight, func() (any, error) { return w.ask(context.WithoutCancel(ctx)) })
	select {
	case result := <-done:
		id, _ := result.Val.(string)
		return id, result.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ask needs no deadline of its own: every call has one, see Factory.deadline.
func (w *whose) ask(ctx context.Context) (string, error) {
	now := w.clock.Now()
	secret, err := w.credentials.Retrieve(ctx)
	if err != nil {
		return "", w.fail(err)
	}
	w.mu.Lock()
	if w.key == secret.AccessKeyID {
		defer w.mu.Unlock()
		w.checked, w.failure, w.pause = now, nil, 0
		return w.account, nil
	}
	w.mu.Unlock()
	answer, err := w.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err == nil && aws.ToString(answer.Account) == "" {
		err = errors.New("STS answered without an account")
	}
	if err != nil {
		return "", w.fail(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.account = secret.AccessKeyID, aws.ToString(answer.Account)
	w.checked, w.failure, w.pause = now, nil, 0
	return w.account, nil
}

// fail remembers a failure, for twice as long each time.
func (w *whose) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause = min(max(2*w.pause, w.interval/retryPart), longestFailure*w.interval)
	w.failure, w.failed = err, w.clock.Now()
	return err
}

// known is the account, if it was ever asked for, after a comparison of the access key; empty when it is not known.
func (w *whose) known(ctx context.Context) string {
	w.mu.Lock()
	skip := w.key == "" || w.failure != nil && w.clock.Since(w.failed) < w.pause
	w.mu.Unlock()
	if skip {
		return ""
	}
	id, err := w.look(ctx)
	if err != nil {
		return "" // what EC2 itself answers decides
	}
	return id
}
