package webhook

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/window"
)

const (
	// enoughSubnets is how many subnets, each in a zone of its own, let a majority survive the loss of any zone, whatever the number of
	// members.
	enoughSubnets = 3
	// wideNetwork is the prefix of the largest private network (10.0.0.0/8); a shorter one reaches beyond it.
	wideNetwork = 8
)

// advice tells what is permitted in a spec, but is better known before it happens.
func advice(cluster *v1alpha1.MySQLCluster) admission.Warnings {
	var warnings admission.Warnings
	for _, part := range []func(*v1alpha1.MySQLCluster) []string{members, variables, subnets, download, clients, data, upkeep, marks} {
		warnings = append(warnings, part(cluster)...)
	}
	return warnings
}

func members(cluster *v1alpha1.MySQLCluster) []string {
	n, lossless := cluster.ReplicaCount(), cluster.Spec.Lossless()
	var warnings []string
	switch {
	case n == 1:
		warnings = append(warnings, "replicas: 1 is not highly available: the database is down while its instance is replaced")
	case n == 2 && lossless:
		warnings = append(warnings, "replicas: 2 with durability Lossless: after the loss of one member writes wait until it is replaced; with 3 they go on")
	case n > 2 && n%2 == 0:
		warnings = append(warnings, fmt.Sprintf("replicas: %d survives the loss of no more members at once than %d", n, n-1))
	}
	if !lossless && n > 1 {
		warnings = append(warnings, "replication.durability: Async: a failover may lose the newest commits, although they were acknowledged")
	}
	return warnings
}

// variables warns of settings that change nothing, and of names that the table of settings does not know: a component may bring them.
func variables(cluster *v1alpha1.MySQLCluster) []string {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(cluster.Spec.MySQLD)) {
		value := cluster.Spec.MySQLD[name]
		if settings.InForce(name, value) {
			warnings = append(warnings, fmt.Sprintf("mysqld.%s: %s is in force on every member anyway; it may be left out", name, value))
		}
		if _, known := settings.Decide(name); !known {
			warnings = append(warnings, fmt.Sprintf("mysqld.%s: MySQL has no variable of this name; unless a component or plug-in brings it, the members refuse it", name))
		}
	}
	return warnings
}

// subnets warns of too few of them. Which zones they are in only EC2 knows, and the webhook does not ask it.
func subnets(cluster *v1alpha1.MySQLCluster) []string {
	n, subnets := int(cluster.ReplicaCount()), len(cluster.Spec.AWS.SubnetIDs)
	const advice = "give subnets of three zones (manager doctor shows the zone of each)"
	switch {
	case n == 1 || subnets == 0 || subnets >= min(n, enoughSubnets):
		return nil
	case subnets == 1:
		return []string{"aws.subnetIDs: all members are in one subnet, so in one zone, and are lost together with it; " + advice}
	default:
		return []string{fmt.Sprintf("aws.subnetIDs: %d members in %d subnets: the loss of one zone can take the majority; "+advice, n, subnets)}
	}
}

// arm matches the instance types with ARM processors: their families have a g behind the generation, and a1.
var arm = regexp.MustCompile(`^([a-z]+[0-9][a-z]*g[a-z]*|a1)[.]`)

// download warns of a tarball that is not built for the instance type.
func download(cluster *v1alpha1.MySQLCluster) []string {
	aws := cluster.Spec.AWS
	if aws.Download == nil {
		return nil
	}
	other := "aarch64"
	if arm.MatchString(aws.InstanceType) {
		other = "x86_64"
	}
	if !strings.Contains(aws.Download.URL, other) {
		return nil
	}
	return []string{fmt.Sprintf("aws.download.url is a tarball for %s by its name, on which mysqld does not start with aws.instanceType %s: name the tarball for its architecture", other, aws.InstanceType)}
}

func clients(cluster *v1alpha1.MySQLCluster) []string {
	var warnings []string
	for _, cidr := range cluster.Spec.AWS.ClientCIDRs {
		network, err := netip.ParsePrefix(cidr)
		if err != nil {
			continue // the CRD refuses it
		}
		if network.Bits() < wideNetwork {
			warnings = append(warnings, fmt.Sprintf("aws.clientCIDRs: %s lets whoever has a route to the members try to log in; name the networks of the clients", cidr))
		}
	}
	return warnings
}

func data(cluster *v1alpha1.MySQLCluster) []string {
	var warnings []string
	if !cluster.Spec.Storage.IsEncrypted() {
		warnings = append(warnings, "storage.encrypted: false: data and snapshots are kept in clear, and that cannot be changed later")
	}
	if cluster.Spec.Storage.EffectiveDeletionPolicy() == v1alpha1.DeletionPolicyDelete {
		warnings = append(warnings, "storage.deletionPolicy: Delete: when the cluster is deleted nothing is kept of its data")
	}
	if !cluster.IsProtected() {
		warnings = append(warnings, "deletionProtection: false: deleting the object, or its namespace, deletes the database")
	}
	return warnings
}

// upkeep warns of schedules that never come: what is to wait for one would for ever, and no backup is taken.
func upkeep(cluster *v1alpha1.MySQLCluster) []string {
	var warnings []string
	if w := cluster.Spec.MaintenanceWindow; w != nil {
		if _, err := window.Read(w); err != nil {
			warnings = append(warnings, err.Error())
		}
	}
	if err := window.CheckBackups(cluster.Spec.Backup); err != nil {
		warnings = append(warnings, err.Error())
	}
	return warnings
}

// retired warns of schedules that an update removes, renames or gives another method: no retention deletes their backups any more.
func retired(before, after *v1alpha1.MySQLCluster) admission.Warnings {
	if before.Spec.Backup == nil {
		return nil
	}
	var names []string
	for _, schedule := range before.Spec.Backup.Schedules {
		if !after.Spec.Backup.Prunes(schedule.Name, schedule.Method) {
			names = append(names, schedule.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return admission.Warnings{"backup.schedules: the backups that " + strings.Join(names, ", ") + " made so far stay until you delete them: the new spec has no schedule of that name and method, whose retention would apply"}
}

func marks(cluster *v1alpha1.MySQLCluster) []string {
	value, marked := cluster.Annotations[v1alpha1.AnnotationAbandonCloudResources]
	switch {
	case !marked:
		return nil
	case value != "true":
		return []string{fmt.Sprintf("annotation %s: %q has no effect; its only value is \"true\"", v1alpha1.AnnotationAbandonCloudResources, value)}
	default:
		return []string{fmt.Sprintf("annotation %s: deleting the cluster may leave instances and volumes behind in AWS that go on costing", v1alpha1.AnnotationAbandonCloudResources)}
	}
}
