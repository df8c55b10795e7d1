package kstatus

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// rewatch is the pause before a watch that ended is begun again.
const rewatch = 200 * time.Millisecond

// Watch checks every status of the clusters and backups of all namespaces as it is written, until ctx ends. It calls report with what
// is wrong.
func Watch(ctx context.Context, c client.WithWatch, report func(wrong string)) {
	checker := &Checker{}
	for _, list := range []client.ObjectList{&v1alpha1.MySQLClusterList{}, &v1alpha1.MySQLBackupList{}} {
		go follow(ctx, c, list, func(o client.Object) {
			if wrong := checker.Check(o); wrong != "" {
				report(wrong)
			}
		})
	}
}

// follow calls see with each object of a kind that is made or changed, again and again.
func follow(ctx context.Context, c client.WithWatch, list client.ObjectList, see func(client.Object)) {
	for ctx.Err() == nil {
		if stream, err := c.Watch(ctx, list); err == nil {
			ended := context.AfterFunc(ctx, stream.Stop)
			for happening := range stream.ResultChan() {
				if o, ok := happening.Object.(client.Object); ok && (happening.Type == watch.Added || happening.Type == watch.Modified) {
					see(o)
				}
			}
			ended()
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatch):
		}
	}
}
