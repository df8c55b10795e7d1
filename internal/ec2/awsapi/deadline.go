package awsapi

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"
)

// How long a call may take depends on what it does when it arrives late, with a leader that lost its lease meanwhile:
//
//	reads, dry runs, calls of STS              nothing                                        patience times CallTimeout
//	creates with a client token of ours        what the next leader finds under that token    patience times CallTimeout
//	all other writes                           what the next leader does not know of          CallTimeout, credentials included
//
// AWS takes 1.5 to 5 seconds for RunInstances, and longer for large lists.
const (
	// defaultCallTimeout is below the leader lease's duration minus its renew deadline (15 s − 10 s), so that no write of a leader that
	// lost its lease is still on its way when the next one acts.
	defaultCallTimeout = 4 * time.Second
	// patience is how many times as long a call may take that may arrive late.
	patience = 5
)

// deadlines bounds calls; write is how long one may take that must not be late.
type deadlines struct{ write time.Duration }

// beforeWrite is the key of BeforeWrite.
type beforeWrite struct{}

// BeforeWrite returns a context whose reads get the time of a write. It is for reads after which the same action writes: that
// must not begin when leadership may be lost by then.
func BeforeWrite(ctx context.Context) context.Context {
	return context.WithValue(ctx, beforeWrite{}, true)
}

// mayBeLate says whether a call does no harm when it arrives after leadership is lost.
func mayBeLate(ctx context.Context, input any) bool {
	operation := awsmiddleware.GetOperationName(ctx)
	switch {
	case strings.HasPrefix(operation, opAssumeRole):
		return true // its answer is kept, whatever it is for
	case ctx.Value(beforeWrite{}) != nil:
		return false
	case strings.HasPrefix(operation, "Describe"), strings.HasPrefix(operation, "Get"), isDryRun(input):
		return true
	}
	switch in := input.(type) {
	case *ec2.RunInstancesInput:
		return in.ClientToken != nil
	case *ec2.CreateVolumeInput:
		return in.ClientToken != nil
	}
	return false
}

// isDryRun reads the field DryRun, which the inputs of all writes have.
func isDryRun(input any) bool {
	in := reflect.ValueOf(input)
	if in.Kind() != reflect.Pointer || in.IsNil() || in.Elem().Kind() != reflect.Struct {
		return false
	}
	field := in.Elem().FieldByName("DryRun")
	if !field.IsValid() {
		return false
	}
	dry, ok := field.Interface().(*bool)
	return ok && aws.ToBool(dry)
}

// bound bounds every call in one place. No call in use streams its answer, so the answer is complete when it returns.
func (d deadlines) bound(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("NairobiDeadline",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			limit := d.write
			if mayBeLate(ctx, in.Parameters) {
				limit *= patience
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
}

// withCredentials returns options with which a call that may be late gets its credentials before its time begins. A write that may
// not be late gets them within its time: when that is too short the next try finds them.
func (d deadlines) withCredentials(options []func(*middleware.Stack) error, provider aws.CredentialsProvider) []func(*middleware.Stack) error {
	return append(slices.Clip(options), func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("NairobiCredentials",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if mayBeLate(ctx, in.Parameters) {
					if err := d.fetch(ctx, provider); err != nil {
						return middleware.InitializeOutput{}, middleware.Metadata{}, err
					}
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
	})
}

// fetch has a provider get its credentials, which it keeps.
func (d deadlines) fetch(ctx context.Context, provider aws.CredentialsProvider) error {
	ctx, cancel := context.WithTimeout(ctx, patience*d.write)
	defer cancel()
	if _, err := provider.Retrieve(ctx); err != nil {
		return fmt.Errorf("get credentials: %w", err)
	}
	return nil
}
