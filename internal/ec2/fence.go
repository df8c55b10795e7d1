package ec2

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/go-logr/logr"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// Stop is how an instance is stopped.
type Stop int

const (
	// StopGracefully lets the operating system shut down.
	StopGracefully Stop = iota
	// StopPower cuts the power: the operating system is not asked, and no file system is flushed. It is the fence, because a graceful
	// shutdown would let a fenced primary finish commits.
	StopPower
	// StopByForce is for an instance that stays in stopping after StopPower: EC2 calls it stopped in the end, whatever its host does. In
	// rare cases writes reach its volumes after that, as the EC2 user guide says of the methods of stopping.
	StopByForce
)

// fence is what the stops of an account and region have shown. The rehearsal tries the very calls that are made in a failover.
type fence struct {
	// slow is true once EC2 did not know SkipOsShutdown and took a stop without it.
	slow atomic.Bool
}

// stop calls StopInstances. An endpoint that does not know SkipOsShutdown is asked without it, from then on at once: there EC2 shuts the
// operating system down first, and the fence takes minutes. No commit is answered by that, because the unit of mysqld is killed and not
// shut down. Force stays for the second step, as it does elsewhere: whoever asks for it records that first.
func (f *fence) stop(ctx context.Context, api awsapi.API, id string, how Stop, dryRun *bool) (*ec2.StopInstancesOutput, error) {
	slow := f.slow.Load()
	answer, err := api.StopInstances(ctx, stopInput(id, how, !slow, dryRun))
	if slow || !refusesSkip(err) {
		return answer, err
	}
	answer, err = api.StopInstances(ctx, stopInput(id, how, false, dryRun))
	if passed(err) && !f.slow.Swap(true) {
		logr.FromContextOrDiscard(ctx).Info("EC2 does not know SkipOsShutdown here; instances are shut down to power them off, which takes minutes, and failovers may take as long")
	}
	return answer, err
}

// stopInput is the request that stops an instance, with or without the parameter that skips the shutdown of its operating system.
func stopInput(id string, how Stop, skip bool, dryRun *bool) *ec2.StopInstancesInput {
	input := &ec2.StopInstancesInput{InstanceIds: []string{id}, DryRun: dryRun}
	if how == StopByForce {
		input.Force = aws.Bool(true)
	}
	if how != StopGracefully && skip {
		input.SkipOsShutdown = aws.Bool(true)
	}
	return input
}

// skipParameter is the parameter that came to EC2's API in July 2025, as errors name it.
const skipParameter = "SkipOsShutdown"

// refusesSkip says whether EC2 rejects a stop because of SkipOsShutdown.
func refusesSkip(err error) bool {
	switch awsapi.Code(err) {
	case "UnknownParameter", "UnsupportedOperation", "InvalidParameterCombination", "InvalidParameterValue":
		return strings.Contains(err.Error(), skipParameter)
	}
	return false
}
