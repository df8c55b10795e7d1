package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// preflightChecks say which check reports what EC2 finds wrong with a field, by the beginning of the field's path. The first row fits.
var preflightChecks = []struct{ field, check string }{
	{awsapi.FieldSubnets, "subnets"}, {awsapi.FieldGroups, "security-groups"}, {awsapi.FieldClientGroups, "security-groups"},
	{awsapi.FieldInstanceType, "instance-type"}, {awsapi.FieldImageID, "image"}, {awsapi.FieldImageAlias, "image"},
	{awsapi.FieldKeyName, "key-pair"}, {awsapi.FieldKMSKey, "kms-key"}, {awsapi.FieldEncrypted, "kms-key"}, {awsapi.FieldStorage, "volume"},
}

// checkOf names the check that reports a problem.
func checkOf(p awsapi.Problem) string {
	switch {
	case p.Reason == v1alpha1.ReasonQuotaExceeded && strings.HasPrefix(p.Field, awsapi.FieldStorage):
		return "storage-quota"
	case p.Reason == v1alpha1.ReasonQuotaExceeded:
		return "vcpu-quota"
	case p.Field == awsapi.FieldProfile:
		return "instance-profile"
	case p.Reason == v1alpha1.ReasonNotPermitted, p.Reason == v1alpha1.ReasonCredentialsInvalid, p.Reason == v1alpha1.ReasonCredentialsMissing:
		return "iam-launch"
	}
	for _, row := range preflightChecks {
		if strings.HasPrefix(p.Field, row.field) {
			return row.check
		}
	}
	return "spec"
}

// ofPreflight is a check that reports a part of what the preflight found.
func ofPreflight(name string) func(context.Context, *patient) Finding {
	return func(ctx context.Context, p *patient) Finding {
		problems, err := p.preflight(ctx)
		if f, found := reported(name, problems); found {
			return f
		}
		switch why, hidden := hides(name, problems); {
		case err != nil:
			return unread(err, "what iam-launch names")
		case hidden && shown[name](ctx, p) != none:
			return notChecked("correct "+why+" first", "EC2 could not be asked because of what %s reports", why)
		}
		return ok("%s", shown[name](ctx, p))
	}
}

// reported is the finding of the problems of one check, false when there is none.
func reported(name string, problems []awsapi.Problem) (Finding, bool) {
	var texts []string
	verdict := Warning
	for _, problem := range problems {
		if checkOf(problem) != name {
			continue
		}
		text := problem.Message
		if problem.Field != "" && !strings.Contains(text, problem.Field) {
			text = problem.Field + ": " + text
		}
		texts = append(texts, text)
		// Capacity that a zone lacks at the moment may be there when it is needed.
		if problem.Reason != v1alpha1.ReasonInsufficientCapacity || name != "instance-type" {
			verdict = Failed
		}
	}
	if len(texts) == 0 {
		return Finding{}, false
	}
	return Finding{Verdict: verdict, Seen: strings.Join(texts, "; "), Change: whatToChange[name]}, true
}

// whatToChange says more than the preflight's own words, where those only say what is missing.
var whatToChange = map[string]string{
	"iam-launch":    "attach the policy of docs/aws.md to the identity that identity names",
	"vcpu-quota":    "ask for more in Service Quotas, or set a smaller spec.aws.instanceType",
	"storage-quota": "ask for more in Service Quotas, or set a smaller spec.storage.size",
}

// hides names the check whose problem kept EC2 from judging what another check is about; false for none.
func hides(name string, problems []awsapi.Problem) (string, bool) {
	for _, problem := range problems {
		by := checkOf(problem)
		reading := by == "iam-launch" && (problem.Reason != v1alpha1.ReasonNotPermitted || strings.Contains(problem.Message, "Describe") || strings.Contains(problem.Message, "GetParameter"))
		// EC2 names the first fault of a launch only.
		launch := slices.Contains([]string{"key-pair", "instance-profile"}, name) && by != "volume" && by != "kms-key" && by != "storage-quota"
		if reading && by != name || launch {
			return by, true
		}
	}
	return "", false
}

const none = "none"

// shown say what each check looked at when nothing is wrong.
var shown = map[string]func(context.Context, *patient) string{
	"subnets": shownSubnets,
	"image":   shownImage,
	"security-groups": func(_ context.Context, p *patient) string {
		if groups := p.cluster.Spec.AWS.SecurityGroupIDs; len(groups) > 0 {
			return strings.Join(groups, ", ")
		}
		return "the cluster gets a group of its own"
	},
	"instance-type": func(_ context.Context, p *patient) string {
		return p.cluster.Spec.AWS.InstanceType + " is sold in the zones of all subnets"
	},
	"instance-profile": func(_ context.Context, p *patient) string { return orNone(p.cluster.Spec.AWS.IAMInstanceProfile) },
	"key-pair":         func(_ context.Context, p *patient) string { return orNone(p.cluster.Spec.AWS.KeyName) },
	"volume": func(_ context.Context, p *patient) string {
		return fmt.Sprintf("a dry run of a volume of %d GiB of type %s is accepted", p.cluster.StorageGiB(), p.cluster.Spec.Storage.VolumeType())
	},
	"spec": func(context.Context, *patient) string { return "the user data of an instance fits" },
	"iam-launch": func(context.Context, *patient) string {
		return "dry runs of RunInstances, CreateVolume and CreateSecurityGroup are permitted"
	},
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

func shownSubnets(ctx context.Context, p *patient) string {
	a, err := p.account(ctx)
	if err != nil {
		return awsapi.Message(err)
	}
	ids := p.cluster.Spec.AWS.SubnetIDs
	found, err := a.cloud.Inventory.AskSubnets(ctx, ids)
	if err != nil {
		return awsapi.Message(err)
	}
	var texts []string
	for _, id := range ids {
		texts = append(texts, fmt.Sprintf("%s in %s has %d free addresses", id, found[id].Zone, found[id].AvailableIPs))
	}
	return strings.Join(texts, ", ")
}

func shownImage(ctx context.Context, p *patient) string {
	a, err := p.account(ctx)
	if err != nil {
		return awsapi.Message(err)
	}
	aws := p.cluster.Spec.AWS
	image, err := a.cloud.ResolveImage(ctx, aws.ImageID, aws.ImageSSMParameter, aws.InstanceType)
	if err != nil {
		return awsapi.Message(err)
	}
	return image.ID + " for " + image.Architecture
}
