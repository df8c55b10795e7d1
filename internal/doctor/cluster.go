package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/tarball"
)

// checkAllowed compares the spec with the administrator's policy.
func checkAllowed(_ context.Context, p *patient) Finding {
	violations := p.doctor.policy.Check(p.cluster.Namespace, p.cluster.Spec)
	if len(violations) == 0 {
		return ok("the administrator's policy allows what the spec names")
	}
	var texts []string
	for _, v := range violations {
		texts = append(texts, v.Field+": "+v.Message)
	}
	return failed("", "%s", strings.Join(texts, "; "))
}

// checkSecrets: those that the spec names exist and hold keys.
func checkSecrets(ctx context.Context, p *patient) Finding {
	named := map[string]string{}
	if ref := p.cluster.Spec.AWS.CredentialsSecretRef; ref != nil {
		named["spec.aws.credentialsSecretRef"] = ref.Name
	}
	if s3 := bucketOf(p.cluster); s3 != nil && s3.CredentialsSecretRef != nil {
		named["spec.backup.destination.s3.credentialsSecretRef"] = s3.CredentialsSecretRef.Name
	}
	var wrong []string
	for field, name := range named {
		var secret corev1.Secret
		err := p.doctor.Kubernetes.Get(ctx, client.ObjectKey{Namespace: p.cluster.Namespace, Name: name}, &secret)
		switch _, broken := p.doctor.Keys(&secret); {
		case apierrors.IsNotFound(err):
			wrong = append(wrong, fmt.Sprintf("there is no Secret %s (%s)", name, field))
		case err != nil:
			return notChecked("permit get secrets", "Secret %s (%s) cannot be read: %v", name, field, err)
		case broken != nil:
			wrong = append(wrong, fmt.Sprintf("Secret %s (%s) %v", name, field, broken))
		}
	}
	if len(wrong) > 0 {
		return failed("create the Secret in namespace "+p.cluster.Namespace+" with the keys accessKeyID and secretAccessKey", "%s", strings.Join(wrong, "; "))
	}
	return ok("%d Secrets are named and hold keys", len(named))
}

// rehearsalPoll is how often the doctor asks whether EC2 has answered the dry runs.
const rehearsalPoll = 100 * time.Millisecond

// checkRehearsal makes dry runs of what may have to be done one day. AWS judges these by the tags of what they are made on.
func checkRehearsal(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	uid := string(p.cluster.UID)
	if _, err := a.cloud.Inventory.Observe(ctx, uid, 0); err != nil {
		return unread(err, "what iam-read names")
	}
	if !a.cloud.CanRehearse(uid) {
		return notChecked("", "AWS judges changes by the tags of an instance and its volume, and the cluster has none yet; the operator tries them then")
	}
	spec, err := p.doctor.Preflight(p.cluster, p.doctor.policy)
	if err != nil {
		return notChecked("correct spec, see its finding", "%v", err)
	}
	known := a.cloud.Rehearse(ctx, spec.Launch.Owner)
	for !known.Completed && known.Unanswered == "" && ctx.Err() == nil {
		time.Sleep(rehearsalPoll)
		known = a.cloud.Rehearsed()
	}
	var texts []string
	for _, problem := range known.Problems {
		texts = append(texts, problem.Message)
	}
	switch {
	case len(texts) > 0:
		return failed("attach the policy of docs/aws.md to the identity that identity names", "%s", strings.Join(texts, "; "))
	case !known.Completed:
		return notChecked("run the doctor again", "EC2 did not answer the dry runs: %s", known.Unanswered)
	}
	return ok("dry runs of what may have to be done to instances, volumes and the group are permitted")
}

// checkRoutes: instances reach MySQL's site, package repositories and S3. They have no public address.
func checkRoutes(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	ids := p.cluster.Spec.AWS.SubnetIDs
	subnets, err := a.cloud.Inventory.AskSubnets(ctx, ids)
	if err != nil {
		return unread(err, "ec2:DescribeSubnets")
	}
	var wrong, right []string
	for _, id := range ids {
		subnet, found := subnets[id]
		if !found {
			continue // subnets says so
		}
		exits, err := a.survey.Exits(ctx, subnet.VPCID, []string{id})
		if err != nil {
			return unread(err, "ec2:DescribeRouteTables")
		}
		switch exit := exits[id]; {
		case exit.Target == "" && exit.ToGateway:
			right = append(right, fmt.Sprintf("subnet %s has a gateway endpoint and no default route", id))
		case exit.Target == "":
			wrong = append(wrong, fmt.Sprintf("subnet %s has no default route (table %s)", id, exit.Table))
		case exit.Blackhole:
			wrong = append(wrong, fmt.Sprintf("the default route of subnet %s leads to %s, which is gone (table %s)", id, exit.Target, exit.Table))
		case exit.NeedsPublicAddress():
			wrong = append(wrong, fmt.Sprintf("the default route of subnet %s leads to %s, and members have no public address (table %s)", id, exit.Target, exit.Table))
		default:
			right = append(right, fmt.Sprintf("subnet %s sends to %s", id, exit.Target))
		}
	}
	const change = "route 0.0.0.0/0 to a NAT gateway, or use an image with MySQL or a mirror that the subnet reaches (docs/images.md)"
	switch {
	case len(wrong) > 0 && downloads(p.cluster):
		return failed(change, "%s: instances cannot download MySQL", strings.Join(wrong, "; "))
	case len(wrong) > 0:
		return warning(change, "%s: only what is inside the VPC is reached", strings.Join(wrong, "; "))
	case len(right) == 0:
		return notChecked("correct subnets, see its finding", "none of the subnets exists")
	}
	return ok("%s", strings.Join(right, ", "))
}

// downloads says whether instances surely fetch MySQL from MySQL's own site.
func downloads(c *v1alpha1.MySQLCluster) bool {
	return !namesImage(c) && (c.Spec.AWS.Download == nil || c.Spec.AWS.Download.URL == "" && c.Spec.AWS.Download.Mirror == "")
}

// namesImage says whether the spec names an image, which may bring MySQL. The default one does not.
func namesImage(c *v1alpha1.MySQLCluster) bool {
	return c.Spec.AWS.ImageID != "" || c.Spec.AWS.ImageSSMParameter != ""
}

// checkDownload asks from here for what instances download. Their own network may differ.
func checkDownload(ctx context.Context, p *patient) Finding {
	if namesImage(p.cluster) && p.cluster.Spec.AWS.Download == nil {
		return notChecked("", "the image of the spec may bring MySQL %s; no instance was asked", p.cluster.Spec.Version)
	}
	architecture := "x86_64"
	if a, err := p.account(ctx); err == nil {
		aws := p.cluster.Spec.AWS
		if image, err := a.cloud.ResolveImage(ctx, aws.ImageID, aws.ImageSSMParameter, aws.InstanceType); err == nil && image.Architecture != "" {
			architecture = image.Architecture
		}
	}
	c := p.cluster
	answer := tarball.Ask(ctx, p.doctor.HTTP, tarball.Of(c.Spec.Version, c.Status.Version, c.Spec.AWS.Download, architecture))
	switch {
	case answer.Found != "":
		return ok("%s is there, as seen from here", answer.Found)
	case answer.Missing:
		return failed("correct spec.version or spec.aws.download (docs/images.md)", "MySQL's tarball is not there: %s", answer.Said)
	}
	return warning("see that the subnets of the instances reach it", "MySQL's site cannot be asked from here: %s", answer.Said)
}

// checkKey describes the key of the volumes.
func checkKey(ctx context.Context, p *patient) Finding {
	problems, _ := p.preflight(ctx)
	if f, found := reported("kms-key", problems); found {
		return f
	}
	name := p.cluster.Spec.Storage.KMSKeyID
	if name == "" {
		return ok("no key is named: EBS encrypts with the account's default key")
	}
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	key, err := a.survey.Key(ctx, name)
	switch {
	case awsapi.Code(err) == "NotFoundException":
		return failed("correct spec.storage.kmsKeyID", "there is no KMS key %s in %s", name, a.cloud.Inventory.Region())
	case err != nil:
		return unread(err, "kms:DescribeKey")
	case key.State != "Enabled":
		return failed("enable the key, or name another in spec.storage.kmsKeyID", "the KMS key %s is in the state %s: volumes vanish, and instances do not start", key.ID, key.State)
	case !key.Symmetric:
		return failed("name a symmetric key in spec.storage.kmsKeyID", "the KMS key %s does not encrypt symmetrically, as EBS needs", key.ID)
	}
	return ok("the KMS key %s is enabled; whether the identity may use it shows with --spend", key.ID)
}
