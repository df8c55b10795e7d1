package topology

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Durability says who must hold a commit before it is answered, and where.
type Durability struct {
	// Lossless asks for semi-synchronous replication. Otherwise replication is asynchronous.
	Lossless bool
	// AckFromMemory lets voters acknowledge what is in their memory; otherwise only what is on their disk.
	AckFromMemory bool
	// MaxApplyLag is how long a failover may have to wait for an applier until writes are slowed; 0: for as long as it takes.
	MaxApplyLag time.Duration
}

// Requests are what a person asks for once.
type Requests struct {
	// SwitchoverTo is the member that a person wants as primary, empty for none.
	SwitchoverTo string
	// RebuildMember is the replica that a person wants rebuilt, empty for none.
	RebuildMember string
	// AcceptLoss is the epoch of the membership row of which a person gives up the voters that do not come back, 0 for none.
	AcceptLoss uint64
}

// Desired is the cluster's spec with every default filled in and every name resolved.
type Desired struct {
	// Cluster is the MySQLCluster's name; members are called <Cluster>-<ordinal>.
	Cluster string
	// Replicas is the number of members wanted, 1 to 9.
	Replicas int
	Durability
	// MaxLag is how far a replica may be behind and still serve reads. It is taken out of service past twice that.
	MaxLag time.Duration
	// TemplateHash says what an instance is built from, in the words of the spec.
	TemplateHash string
	// Template is what TemplateHash is the hash of.
	Template string
	// PreviousTemplate is what an instance is made from that is not to have Version yet: the spec as it is, with the version, image and type
	// of the instances on which all members were last well. Zero when that is not known, or EC2 takes no order for it.
	PreviousTemplate Template
	// Version is the version of MySQL that every member is to run.
	Version string
	// SizeGiB is the size of each volume.
	SizeGiB int32
	// VolumeType, IOPS and Throughput (MiB/s) are the wanted kind and performance of each volume; empty or 0 for whatever
	// EC2 chose.
	VolumeType       string
	IOPS, Throughput int32
	// Subnets are the subnets of the spec in its order, with their zones. Empty while they are not resolved:
	// then nothing is created.
	Subnets []Subnet
	// ManagedSecurityGroup is true when the operator makes the members' security group itself.
	ManagedSecurityGroup bool
	// Settings are the mysqld variables of the spec.
	Settings map[string]string
	// Database is true when the spec asks for an application database.
	Database bool
	Requests
	// RestartedAt asks for a restart of every mysqld that started before; zero for none. In the future it asks for nothing yet.
	RestartedAt time.Time
	// CertificatesRenewedAt asks for a new certificate in place of every one that was signed before; zero for none. In the
	// future it asks for nothing yet.
	CertificatesRenewedAt time.Time
	Holds
	// Soak is how long a member has to run on its new instance before the next is replaced.
	Soak time.Duration
	Beginning
	// Hibernate asks for a cluster without instances, whose volumes are kept.
	Hibernate bool
	// Deleting is true once the cluster is to go: it has a deletion timestamp and is not protected.
	Deleting bool
	// DeletionPolicy says what becomes of the volumes.
	DeletionPolicy v1alpha1.DeletionPolicy
}

// Beginning says with what a new cluster begins.
type Beginning struct {
	// Recover asks for a cluster that begins with what another left behind, restored into its first member. ToPoint asks that what was
	// archived up to a point in time is added to it.
	Recover, ToPoint bool
}

// Holds say what waits for what.
type Holds struct {
	// Hold says why no member may be disturbed at the moment because the spec was changed; empty when one may.
	Hold string
	// Untried says why nothing is launched from the present template yet, nor data opened on it; empty when that may be.
	Untried string
}

// holds says why a member that works is not changed at the moment. One that leaves needs nothing of the present template.
func (d Desired) holds(m *Member) (why string, holds bool) {
	if why = d.Hold; m.Ordinal < d.Replicas {
		why = cmp.Or(why, d.Untried)
	}
	return why, why != ""
}

// Subnet is a subnet of the spec.
type Subnet struct {
	ID, Zone string
	// FullAt is when EC2 last refused an instance in it for lack of a free address; zero when it did not lately.
	FullAt time.Time
}

// MemberName returns the name of the member with an ordinal.
func (d Desired) MemberName(ordinal int) string {
	return fmt.Sprintf("%s-%d", d.Cluster, ordinal)
}

// Ordinal returns the ordinal of a member of this cluster, or false when the name is not one of its members'.
func (d Desired) Ordinal(member string) (int, bool) {
	rest, ok := strings.CutPrefix(member, d.Cluster+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 || n >= v1alpha1.MaxReplicas || strconv.Itoa(n) != rest {
		return 0, false
	}
	return n, true
}

// refusesMember refuses a request for a member that the cluster does not have.
func (d Desired) refusesMember(name string) Answer {
	if ordinal, ok := d.Ordinal(name); ok && ordinal < d.Replicas {
		return Answer{}
	}
	return refused("%q is no member of this cluster; name one of %s to %s", name, d.MemberName(0), d.MemberName(d.Replicas-1))
}

// subnetFor returns the subnet in which a new volume of a member is made: round-robin by ordinal, shifted by one
// for each time that its zone had to be given up.
func (d Desired) subnetFor(ordinal, shift int) Subnet {
	return d.Subnets[(ordinal+shift)%len(d.Subnets)]
}

// subnetInZone returns the subnet of a zone in which an instance is launched: the one that round-robin names, else the first, of those
// that EC2 did not lately refuse as full. When it refused all of them it is the one that was refused longest ago.
func (d Desired) subnetInZone(zone string, ordinal, shift int) (Subnet, bool) {
	var best Subnet
	for _, s := range append([]Subnet{d.subnetFor(ordinal, shift)}, d.Subnets...) {
		if s.Zone == zone && (best.ID == "" || s.FullAt.Before(best.FullAt)) {
			best = s
		}
	}
	return best, best.ID != ""
}

// ZoneFull says whether a zone has subnets, and EC2 lately refused each of them as full.
func ZoneFull(subnets []Subnet, zone string) bool {
	full := false
	for _, s := range subnets {
		if s.Zone != zone {
			continue
		}
		if full = !s.FullAt.IsZero(); !full {
			return false
		}
	}
	return full
}

// lacksRoom says what a zone lacks that EC2 refuses an instance of a member in.
func (d Desired) lacksRoom(zone string) string {
	if ZoneFull(d.Subnets, zone) {
		return "no free address in the subnets of " + zone
	}
	return "no capacity in " + zone
}

// otherZone returns the next shift of a member's subnet that leads out of a zone.
func (d Desired) otherZone(ordinal, shift int, zone string) (next int, ok bool) {
	for next = shift + 1; next < shift+len(d.Subnets); next++ {
		if d.subnetFor(ordinal, next).Zone != zone {
			return next, true
		}
	}
	return shift, false
}
