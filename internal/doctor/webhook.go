package doctor

import (
	"context"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// sample is a cluster that the CRD accepts and of which the webhook warns: it has one member.
func sample(namespace string) *v1alpha1.MySQLCluster {
	c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nairobi-doctor"}}
	c.Spec.Version = "8.4.6"
	c.Spec.Replicas = ptr.To[int32](1)
	c.Spec.AWS.Region, c.Spec.AWS.InstanceType = "us-east-1", "m6i.large"
	c.Spec.AWS.SubnetIDs = []string{"subnet-0123456789abcdef0"}
	c.Spec.AWS.ClientCIDRs = []string{probeAddress + "/32"}
	return c
}

// adviceOfOne begins what the webhook says of a cluster with one member.
const adviceOfOne = "replicas: 1"

// adviceOfMark begins what it says of an annotation with a value that means nothing.
const adviceOfMark = "annotation " + v1alpha1.AnnotationAbandonCloudResources

// heard collects the warnings of the API server.
type heard struct {
	mu    sync.Mutex
	texts []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

func (h *heard) has(part string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.texts, func(text string) bool { return strings.Contains(text, part) })
}

const (
	whyUnreached = "look at Service " + webhook.ServiceName + ", at the CA in ValidatingWebhookConfiguration " + webhook.ConfigurationName +
		", and at whether the control plane reaches port 9443 of the operator's pod (docs/install.md)"
	whyNotAllowed = "run the doctor as somebody who may do that, such as an administrator: a dry run needs the permission (docs/doctor.md)"
)

// checkWebhook has the API server ask the webhook by a dry run, to which it answers with a warning. The API server goes on without a
// webhook that it does not reach, but then the warning is missing.
func checkWebhook(ctx context.Context, d *Doctor) Finding {
	if !d.Webhook {
		return ok("this installation has no webhook (--webhook-certs=none)")
	}
	warnings := &heard{}
	config := rest.CopyConfig(d.Config)
	config.WarningHandler, config.WarningHandlerWithContext = warnings, nil
	listening, err := client.New(config, client.Options{Scheme: d.Kubernetes.Scheme(), Mapper: d.Kubernetes.RESTMapper()})
	if err != nil {
		return notChecked("make the API server reachable", "no client can be made: %v", err)
	}
	what, advice := "create", adviceOfOne
	if i := slices.IndexFunc(d.clusters, applied); i >= 0 {
		what, advice = "patch", adviceOfMark
		c := d.clusters[i].DeepCopy()
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationAbandonCloudResources, "doctor")
		err = listening.Patch(ctx, c, client.MergeFrom(&d.clusters[i]), client.DryRunAll)
	} else {
		err = listening.Create(ctx, sample(d.SystemNamespace), client.DryRunAll)
	}
	switch {
	case apierrors.IsForbidden(err):
		return notChecked(whyNotAllowed, "a dry run of %s mysqlclusters is not permitted", what)
	case err != nil:
		return failed(whyUnreached, "a dry run of %s of a valid MySQLCluster is refused: %v", what, err)
	case !warnings.has(advice):
		return failed(whyUnreached, "the webhook did not answer a dry run of %s: advice is lost, and no MySQLCluster can be deleted", what)
	}
	return ok("the webhook answered a dry run of %s", what)
}

// applied says whether a cluster is in Kubernetes, and not in a manifest only.
func applied(c v1alpha1.MySQLCluster) bool { return c.ResourceVersion != "" }

// checkWebhookDelete makes a dry run of the deletion of a protected cluster, which the webhook has to refuse.
func checkWebhookDelete(ctx context.Context, d *Doctor) Finding {
	if !d.Webhook {
		return warning("install the webhook, see docs/install.md", "without a webhook nothing refuses the deletion of a protected cluster at once")
	}
	i := slices.IndexFunc(d.clusters, func(c v1alpha1.MySQLCluster) bool {
		return applied(c) && c.IsProtected() && c.DeletionTimestamp.IsZero()
	})
	if i < 0 {
		return notChecked("", "there is no protected MySQLCluster on which a deletion could be tried")
	}
	c := d.clusters[i]
	name := c.Namespace + "/" + c.Name
	err := d.Kubernetes.Delete(ctx, &c, client.DryRunAll, client.Preconditions{UID: &c.UID})
	switch {
	case err == nil:
		return failed("install the webhook's configuration again (docs/install.md)", "a dry run of the deletion of %s is accepted, although it is protected: no webhook refuses it", name)
	case strings.Contains(err.Error(), "is protected against deletion"):
		return ok("the webhook refused a dry run of the deletion of %s, which is protected", name)
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook"):
		return notChecked(whyNotAllowed, "a dry run of delete mysqlclusters in %s is not permitted", c.Namespace)
	}
	return failed(whyUnreached, "a dry run of the deletion of %s fails: %v", name, err)
}
