package manager

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/access"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/decide"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/execute"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/doctor"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/survey"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// doctorPatience bounds what the doctor asks: nobody waits for it as for an operator.
	doctorPatience = time.Minute
	// doctorCallTimeout bounds a call that is not only a read, and its dry runs and reads by five times that.
	doctorCallTimeout = 10 * time.Second
)

// NewDoctor puts the doctor together for the API server of config. Of o it uses what leads to Kubernetes and AWS: it asks as the operator
// asks. It makes no call to AWS.
func NewDoctor(config *rest.Config, o Options, what doctor.Options) (*doctor.Doctor, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1
	direct, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	around := o.Surroundings.filled(nil)
	watch := survey.NewClock(around.Clock)
	calls := awsapi.Config{
		Endpoint: o.AWSEndpoint, Region: o.AWSRegion, UserAgent: o.Build.userAgent(), CallTimeout: doctorCallTimeout, Clock: around.Clock,
		Middleware: func(next http.RoundTripper) http.RoundTripper {
			if around.AWS != nil {
				next = around.AWS(next)
			}
			return watch.Wrap(next)
		},
	}
	what.SystemNamespace, what.Region = o.Namespace, o.AWSRegion
	return doctor.New(what, doctor.Ports{
		Kubernetes: direct, Config: config, AWSClock: watch, Clock: around.Clock, HTTP: &http.Client{Timeout: doctorPatience},
		Clouds:    ec2.NewFactory(ec2.Options{Config: calls, LookPatience: doctorPatience}),
		Connector: awsapi.NewConnector(calls),
		Account:   access.AccountOf,
		Keys:      access.KeysIn,
		Preflight: func(c *v1alpha1.MySQLCluster, rules policy.Policy) (ec2.PreflightSpec, error) {
			return preflightSpec(c, rules, around.Clock)
		},
	}), nil
}

// preflightSpec is what the operator would have EC2 check for a cluster of which there is nothing yet. The user data is as long as the
// real one, with another authority's certificate.
func preflightSpec(c *v1alpha1.MySQLCluster, rules policy.Policy, clock clock.PassiveClock) (ec2.PreflightSpec, error) {
	authority, err := pki.NewAuthority(string(c.UID), c.Name, clock.Now())
	if err != nil {
		return ec2.PreflightSpec{}, err
	}
	desired := topology.Desired{Cluster: c.Name, SizeGiB: c.StorageGiB()}
	for _, id := range c.Spec.AWS.SubnetIDs {
		desired.Subnets = append(desired.Subnets, topology.Subnet{ID: id})
	}
	s := &pass.Pass{
		Cluster: c, Cache: pass.NewCache(string(c.UID)), Access: pass.Access{Policy: rules}, Desired: desired,
	}
	s.Keys.Sign(authority)
	return decide.New(nil, &execute.Executor{}).PreflightSpec(s)
}
