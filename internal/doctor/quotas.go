package doctor

import (
	"context"
	"errors"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/survey"
)

// serviceQuotas are the permissions of the checks of quotas.
const serviceQuotas = "servicequotas:ListServiceQuotas"

// checkVCPUs: EC2 checks the quota at a real launch only. One member is replaced at a time, so one more has to fit.
func checkVCPUs(ctx context.Context, p *patient) Finding {
	return checkQuota(ctx, p, "vcpu-quota", "vCPUs", func(a *account, known inventory.Inventory) (survey.Quota, float64, error) {
		info, err := a.cloud.InstanceType(ctx, p.cluster.Spec.AWS.InstanceType)
		if err != nil {
			return survey.Quota{}, 0, err
		}
		missing := int(p.cluster.ReplicaCount())
		for _, i := range known.Instances {
			if i.State == inventory.StateRunning || i.State == inventory.StatePending {
				missing--
			}
		}
		quota, err := a.survey.VCPUs(ctx, p.cluster.Spec.AWS.InstanceType)
		return quota, float64(max(missing, 0)+1) * float64(info.VCPUs), err
	})
}

// checkStorage is checkVCPUs for the storage of the data volumes.
func checkStorage(ctx context.Context, p *patient) Finding {
	return checkQuota(ctx, p, "storage-quota", "GiB", func(a *account, known inventory.Inventory) (survey.Quota, float64, error) {
		missing := max(int(p.cluster.ReplicaCount())-len(known.Volumes), 0)
		quota, err := a.survey.Storage(ctx, string(p.cluster.Spec.Storage.VolumeType()))
		return quota, float64(missing+1) * float64(p.cluster.StorageGiB()), err
	})
}

func checkQuota(ctx context.Context, p *patient, name, unit string, need func(*account, inventory.Inventory) (survey.Quota, float64, error)) Finding {
	problems, _ := p.preflight(ctx)
	if f, found := reported(name, problems); found {
		return f
	}
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	quota, more, err := need(a, a.cloud.Inventory.Known(string(p.cluster.UID)))
	switch {
	case errors.Is(err, survey.ErrUnknownQuota):
		return notChecked("look it up in the console of Service Quotas", "%v", err)
	case awsapi.Classify(err) == awsapi.Invalid && err != nil:
		return notChecked("correct instance-type, see its finding", "%s", awsapi.Message(err))
	case err != nil:
		return unread(err, serviceQuotas)
	case quota.Used+more > quota.Limit:
		return failed(whatToChange[name], "the account's quota %q is %.0f %s, of which %.0f are in use; the cluster needs %.0f, a replacement included", quota.Name, quota.Limit, unit, quota.Used, more)
	}
	return ok("%.0f of %.0f %s are in use, and the cluster needs %.0f, a replacement included", quota.Used, quota.Limit, unit, more)
}
