package awsapi

import (
	"context"
	"errors"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// Values of the label code that are not codes of AWS.
const (
	codeOK       = "OK"
	codeNoAnswer = "NoAnswer"
)

// metrics counts what goes over the wire, so every attempt of the SDK counts by itself.
type metrics struct {
	clock    clock.PassiveClock
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics registers with r; with a nil r the figures are kept but served by nobody. A second factory on the same
// registry shares the first one's figures.
func newMetrics(r prometheus.Registerer, c clock.PassiveClock) *metrics {
	return &metrics{
		clock: c,
		calls: Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mysqlcluster_aws_calls_total",
			Help: "Calls to AWS by operation and by the code of the answer (OK, AWS's error code, or NoAnswer). Retries count.",
		}, []string{"operation", "code"})),
		duration: Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mysqlcluster_aws_call_duration_seconds",
			Help:    "How long AWS took to answer, by operation. Each attempt by itself.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"operation"})),
	}
}

// Register registers a collector, or returns the one that a second factory on the same registry registered before. With a nil r
// the figures are kept but served by nobody.
func Register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	err := r.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if first, ok := already.ExistingCollector.(C); ok {
			return first
		}
	}
	return c
}

// count is the SDK middleware behind the figures. It sits inside the SDK's retry loop.
func (m *metrics) count(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("NairobiCount",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			began := m.clock.Now()
			out, meta, err := next.HandleFinalize(ctx, in)
			operation := awsmiddleware.GetOperationName(ctx)
			m.calls.WithLabelValues(operation, codeLabel(err)).Inc()
			m.duration.WithLabelValues(operation).Observe(m.clock.Since(began).Seconds())
			return out, meta, err
		}), "Retry", middleware.After)
}

func codeLabel(err error) string {
	if err == nil {
		return codeOK
	}
	if code := Code(err); code != "" {
		return code
	}
	return codeNoAnswer
}
