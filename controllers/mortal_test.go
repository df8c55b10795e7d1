package controllers

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errDead is what a killed operator gets from everything: its calls never leave it.
var errDead = errors.New("this operator was killed")

// mortal is a client whose writes stop when its operator is killed.
type mortal struct {
	client.Client
	operator *operator
}

func (m mortal) alive() error {
	if m.operator.dead.Load() {
		return errDead
	}
	return nil
}

// Create implements client.Client.
func (m mortal) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Client.Create(ctx, obj, opts...)
}

// Patch implements client.Client.
func (m mortal) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Client.Patch(ctx, obj, patch, opts...)
}

// Apply implements client.Client.
func (m mortal) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Client.Apply(ctx, ac, opts...)
}

// Delete implements client.Client.
func (m mortal) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Client.Delete(ctx, obj, opts...)
}

// Status implements client.Client.
func (m mortal) Status() client.SubResourceWriter { return mortalStatus{m.Client.Status(), m} }

// mortalStatus is mortal for the status.
type mortalStatus struct {
	client.SubResourceWriter
	of mortal
}

// Patch implements client.SubResourceWriter.
func (m mortalStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := m.of.alive(); err != nil {
		return err
	}
	err := m.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	if err == nil {
		m.of.operator.statuses.see(obj)
	}
	return err
}
