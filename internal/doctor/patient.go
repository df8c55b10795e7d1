package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/survey"
)

// patient is what is examined: a cluster, or the operator's own account where there is none.
type patient struct {
	doctor  *Doctor
	cluster *v1alpha1.MySQLCluster // nil for none

	preflighted bool
	problems    []awsapi.Problem
	err         error // why the preflight has not ended
}

// account is a way to an AWS account and region.
type account struct {
	cloud  *ec2.Cloud
	survey *survey.Survey
}

// Errors that keep a patient's account from being used.
var (
	errNoRegion   = errors.New("no region is known: set --aws-region")
	errNotLent    = errors.New("the administrator's policy does not let the cluster use the account, see policy-allows")
	errNoKeys     = errors.New("the Secret of spec.aws.credentialsSecretRef lacks keys, see secrets")
	errUnreadable = errors.New("the Secret of spec.aws.credentialsSecretRef cannot be read")
)

func (p *patient) name() string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.Namespace + "/" + p.cluster.Name
}

// way is the account that the operator would use. What the policy does not allow is not used by the doctor either.
func (p *patient) way(ctx context.Context) (awsapi.Account, error) {
	d := p.doctor
	if p.cluster == nil {
		if d.Region == "" {
			return awsapi.Account{}, errNoRegion
		}
		return awsapi.Account{Region: d.Region}, nil
	}
	for _, v := range d.policy.Check(p.cluster.Namespace, p.cluster.Spec) {
		if v.Account {
			return awsapi.Account{}, errNotLent
		}
	}
	way := d.Account(p.cluster)
	ref := p.cluster.Spec.AWS.CredentialsSecretRef
	if ref == nil {
		return way, nil
	}
	var secret corev1.Secret
	err := d.Kubernetes.Get(ctx, client.ObjectKey{Namespace: p.cluster.Namespace, Name: ref.Name}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return way, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	keys, err := d.Keys(&secret)
	if err != nil {
		return way, errNoKeys
	}
	way.Static = &keys
	return way, nil
}

// accountKey is the same for clusters in the same account and region under the same identity.
func (d *Doctor) accountKey(ctx context.Context, p *patient) string {
	way, err := p.way(ctx)
	if err != nil {
		return err.Error()
	}
	return way.Key()
}

// account makes the clients, once for each account.
func (p *patient) account(ctx context.Context) (*account, error) {
	way, err := p.way(ctx)
	if err != nil {
		return nil, err
	}
	d := p.doctor
	if known := d.accounts[way.Key()]; known != nil {
		return known, nil
	}
	a := &account{}
	if a.cloud, err = d.Clouds.Cloud(ctx, way); err != nil {
		return nil, err
	}
	if a.survey, err = survey.New(ctx, d.Connector, way); err != nil {
		return nil, err
	}
	d.accounts[way.Key()] = a
	return a, nil
}

// unreached is the finding of a check that needs an account which cannot be used.
func unreached(err error) Finding { return notChecked("", "%s", awsapi.Message(err)) }

// unread is the finding of a check whose answer AWS did not give. Most are of permissions that the operator does not need.
func unread(err error, actions string) Finding {
	if awsapi.LacksPermission(awsapi.Code(err)) {
		return notChecked("permit "+actions+" to have this checked (config/aws/doctor.json in docs/aws.md)", "%s", awsapi.Message(err))
	}
	return notChecked("run the doctor again when AWS answers", "%s", awsapi.Message(err))
}

const (
	// preflightTries and preflightPause: one account can try two launches a second.
	preflightTries = 10
	preflightPause = time.Second
)

// preflight has EC2 check the spec as the operator does before it launches, once for all checks that use it.
func (p *patient) preflight(ctx context.Context) ([]awsapi.Problem, error) {
	if p.preflighted {
		return p.problems, p.err
	}
	p.preflighted = true
	a, err := p.account(ctx)
	if err != nil {
		p.err = err
		return nil, err
	}
	spec, err := p.doctor.Preflight(p.cluster, p.doctor.policy)
	if err != nil {
		p.problems = []awsapi.Problem{{Field: "spec", Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}}
		return p.problems, nil //nolint:nilerr // it is what was found
	}
	// What there is already counts for the addresses and the group; that it cannot be read is a finding of iam-read.
	_, _ = a.cloud.Inventory.Observe(ctx, string(p.cluster.UID), 0)
	for range preflightTries {
		if p.problems, p.err = a.cloud.Preflight(ctx, spec); !awsapi.IsThrottled(p.err) {
			break
		}
		select {
		case <-ctx.Done():
			return p.problems, ctx.Err()
		case <-time.After(preflightPause):
		}
	}
	return p.problems, p.err
}

// ask makes one HEAD request. Where authorities are given, in PEM, only they may sign the server's certificate.
func (p *patient) ask(ctx context.Context, address, authorities string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil, err
	}
	if authorities == "" {
		return p.doctor.HTTP.Do(request)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authorities))
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	return (&http.Client{Transport: transport, Timeout: p.doctor.HTTP.Timeout}).Do(request)
}
