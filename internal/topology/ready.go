package topology

import "github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"

// finish plans what a cluster with a primary still needs: its application database, its settings.
func (p *planner) finish() {
	if primary := p.views[p.plan.Primary]; primary != nil && p.Database && !p.DatabaseReady {
		p.do(EnsureDatabase{p.plan.Primary})
		primary.Message = "creating the application database"
		primary.Phase = v1alpha1.PhaseReplicating
	}
	p.configure()
	for _, m := range p.ordered() {
		if m.Ordinal >= p.Replicas {
			v := p.views[m.Name]
			v.Phase = v1alpha1.PhaseReplicating
			v.Message = "not wanted by spec.replicas; it keeps running, raise spec.replicas again"
			p.degraded(v1alpha1.ReasonInvalidSpec, m.Name+" is "+v.Message)
		}
	}
}
