package topology

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// pendingChanges says which members are not what the spec would make of them today. Running machines and volumes are
// left as they are: a new instance of the member will be right.
func (p *planner) pendingChanges() {
	for _, m := range p.ordered() {
		if in := m.CurrentInstance(); in != nil && in.TemplateHash != "" && in.TemplateHash != p.TemplateHash {
			p.degraded(v1alpha1.ReasonChangePending, fmt.Sprintf("%s: instance %s was made from an earlier version, instance type, image, profile or key of the spec; it is not replaced by this release of the operator", m.Name, in.ID))
		}
		if vol := m.volume(); vol != nil && vol.SizeGiB != 0 && vol.SizeGiB < p.SizeGiB {
			p.degraded(v1alpha1.ReasonChangePending, fmt.Sprintf("%s: volume %s has %d GiB and the spec asks for %d; it is not grown by this release of the operator", m.Name, vol.ID, vol.SizeGiB, p.SizeGiB))
		}
	}
}

// finish plans what a cluster with a primary still needs: its application database, its settings.
func (p *planner) finish() {
	if primary := p.views[p.plan.Primary]; primary != nil && p.Database && !p.DatabaseReady {
		p.retry(waitMySQL/4, EnsureDatabase{p.plan.Primary})
		primary.Message = "creating the application database"
		primary.Phase = v1alpha1.PhaseReplicating
	}
	p.configure()
	p.handOver()
	p.heal()
	p.watch()
	p.expireQuarantine()
	p.pendingChanges()
	for _, m := range p.ordered() {
		if m.Ordinal >= p.Replicas {
			v := p.views[m.Name]
			v.Phase = v1alpha1.PhaseReplicating
			v.Message = "not wanted by spec.replicas; it keeps running, raise spec.replicas again"
			p.degraded(v1alpha1.ReasonInvalidSpec, m.Name+" is "+v.Message)
		}
	}
}
