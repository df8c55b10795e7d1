package engine

import (
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// EC2's codes for a zone that has none of an instance type, and none of a volume type left, and for a subnet without a free address.
const (
	codeNoCapacity       = awsapi.CodeNoCapacity
	codeNoVolumeCapacity = "InsufficientVolumeCapacity"
	codeNoAddress        = "InsufficientFreeAddressesInSubnet"
)

// refusalKept is how long after EC2 said so last a zone is believed to have no capacity, and a subnet no free address. As long as a zone
// matters it is asked again within half a minute; what was refused and then not wanted any more says nothing about another day.
const refusalKept = 5 * time.Minute

// capacity is where EC2 refused an instance or a volume for lack of room.
type capacity struct {
	// full says in which zone EC2 has no room for a member, for what, and since when.
	full map[string]refusal
	// subnets are the subnets without a free address, with when EC2 last said so.
	subnets map[string]time.Time
}

func newCapacity() capacity {
	return capacity{full: map[string]refusal{}, subnets: map[string]time.Time{}}
}

// refusal is a zone without room: for a volume, or for an instance; since when, and when EC2 said so last. While it is in doubt, the answer
// to a later order was lost: EC2 may have found room for that one.
type refusal struct {
	zone            string
	volume, inDoubt bool
	since, last     time.Time
}

// lacksRoom says whether EC2 refuses an instance, or a volume, because its zone or subnet has no room for it.
func lacksRoom(volume bool, err error) bool {
	code := awsapi.Code(err)
	return volume && code == codeNoVolumeCapacity || !volume && (code == codeNoCapacity || code == codeNoAddress)
}

// recordCapacity records in which zone, and since when, EC2 has no room for a member's instance or volume, or that it has. Any other
// error says nothing about that. Several members are launched at the same time.
func (q *Requests) recordCapacity(member, zone string, volume bool, err error, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.full[member]
	switch {
	case err == nil && (known.volume == volume || !volume): // with an instance there is a volume
		delete(q.full, member)
	case mayHaveMade(err) && known.zone == zone && known.volume == volume:
		known.inDoubt = true
		q.full[member] = known
	case !lacksRoom(volume, err) || zone == "":
	case known.zone != zone || known.volume != volume || now.Sub(known.last) > refusalKept:
		q.full[member] = refusal{zone: zone, volume: volume, since: now, last: now}
	default:
		known.last, known.inDoubt = now, false
		q.full[member] = known
	}
}

// recordLaunch records what the outcome of a launch says of room in its subnet, and in the subnet's zone: that one has none for the
// member when each of its subnets was refused. subnets are those of the spec.
func (q *Requests) recordLaunch(a topology.LaunchInstance, subnets []topology.Subnet, err error, now time.Time) {
	noAddress := awsapi.Code(err) == codeNoAddress
	q.mu.Lock()
	switch {
	case noAddress:
		q.subnets[a.SubnetID] = now
	case err == nil:
		delete(q.subnets, a.SubnetID)
	}
	q.mu.Unlock()
	zone := ""
	for _, subnet := range subnets {
		if subnet.ID == a.SubnetID {
			zone = subnet.Zone
		}
	}
	if noAddress && !topology.ZoneFull(q.WithRefusals(subnets, now), zone) {
		return // the next launch goes into another subnet
	}
	q.recordCapacity(a.Member, zone, false, err, now)
}

// WithRefusals returns subnets with when EC2 last refused an instance in each for lack of an address.
func (q *Requests) WithRefusals(subnets []topology.Subnet, now time.Time) []topology.Subnet {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := make([]topology.Subnet, 0, len(subnets))
	for _, subnet := range subnets {
		subnet.FullAt = time.Time{}
		if at := q.subnets[subnet.ID]; now.Sub(at) <= refusalKept {
			subnet.FullAt = at
		}
		known = append(known, subnet)
	}
	return known
}

// CapacityRefused returns in which zone EC2 has no room for a member, and since when; none while it is not known how the last
// order ended: what that made in the zone would be left behind in it.
func (q *Requests) CapacityRefused(member string, now time.Time) (zone string, since time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.full[member]
	open := slices.ContainsFunc(q.calls, func(c *call) bool {
		o, makes := orderOf(c.action)
		return makes && o.member == member && o.volume == known.volume
	})
	if known.inDoubt || open || now.Sub(known.last) > refusalKept {
		return "", time.Time{}
	}
	return known.zone, known.since
}
