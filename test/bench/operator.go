package bench

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/manager"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

// operator is an operator in this process, as main.go runs it, with meters and stubs in the places that take them.
type operator struct {
	*manager.Operator
	meter  *meter
	cancel context.CancelFunc
	ended  chan error
}

// start runs an operator that takes part in leader election. stop ends it.
func (w *world) start(ctx context.Context) (*operator, error) {
	m := newMeter()
	config := rest.CopyConfig(w.kube)
	config.Wrap(m.kubernetes)
	all := child.Options()
	all.Surroundings = manager.Surroundings{
		Registry: prometheus.NewRegistry(),
		Clock:    &stopwatch{meter: m},
		Client:   func(c client.Client) client.Client { return &countingClient{c, m} },
		Reader:   func(r client.Reader) client.Reader { return &countingReader{r, m} },
		AWS:      func(http.RoundTripper) http.RoundTripper { return m.aws(w.cloud) },
		Dial:     w.fleet.dial, Statement: m.changed, Shared: true,
	}
	run, err := manager.New(config, all)
	if err != nil {
		return nil, err
	}
	o := &operator{Operator: run, meter: m, ended: make(chan error, 1)}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() { o.ended <- run.Run(ctx) }()
	return o, nil
}

// stop ends the operator as a signal does, and waits for it.
func (o *operator) stop() error {
	o.cancel()
	return <-o.ended
}

// force asks for a reconcile, as the prober does.
func (o *operator) force(namespace, name string) {
	o.Wake(types.NamespacedName{Namespace: namespace, Name: name})
}
