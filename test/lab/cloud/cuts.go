package cloud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// Parties of a cut, besides an instance's id.
const (
	// PartyMembers are all instances.
	PartyMembers = "members"
	// PartyNode is the Kubernetes node: every pod, the operator among them, has its address in the VPC.
	PartyNode = "node"
	// PartyPod, followed by the address of a pod, is one pod alone.
	PartyPod = "pod:"
)

// memberRanges are the addresses that instances can have: the subnets, without those of the host and the node.
const memberRanges = "{ 10.77.1.0/24, 10.77.2.0/24, 10.77.3.0/24 }"

// cut is one way that packets do not go. The ends are addresses, or sets of them, as nft writes them.
type cut struct {
	from, to string
	// inNode says that it is done on the node, where the pods' own addresses are still to be seen.
	inNode bool
}

// rule is the cut as nft understands it. In forward the packet has its last addresses: those after the Service was
// replaced by a member, and before the pod's was replaced by the node's.
func (c cut) rule(table string) string {
	return fmt.Sprintf("add rule %s forward ip saddr %s ip daddr %s drop; ", table, c.from, c.to)
}

// setCuts changes which ways are cut and puts it in force.
func (f *fabric) setCuts(ctx context.Context, change func(map[cut]bool)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := maps.Clone(f.cuts)
	change(wanted)
	var errs []error
	if differ(f.cuts, wanted, false) {
		_, err := host.RunInNetNS(ctx, fabricNS, "chroot", f.base, "/usr/sbin/nft", ruleSet(wanted, "bridge faults", false))
		errs = append(errs, err)
	}
	if differ(f.cuts, wanted, true) {
		if f.node == 0 {
			return errors.New("there is no node, and so there are no pods")
		}
		_, err := host.Run(ctx, "nsenter", "-n", "-t", strconv.Itoa(f.node), "--", "chroot", f.base, "/usr/sbin/nft",
			ruleSet(wanted, "ip faults", true))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	f.cuts = wanted
	return nil
}

// differ says whether two sets of cuts differ in those done on the node, or in the others.
func differ(a, b map[cut]bool, inNode bool) bool {
	other := func(c cut, _ bool) bool { return c.inNode != inNode }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, other)
	maps.DeleteFunc(b, other)
	return !maps.Equal(a, b)
}

// ruleSet replaces a table by one with the cuts that belong there, in one step.
func ruleSet(cuts map[cut]bool, table string, inNode bool) string {
	var rules strings.Builder
	fmt.Fprintf(&rules, "add table %[1]s; delete table %[1]s; add table %[1]s; "+
		"add chain %[1]s forward { type filter hook forward priority 0; }; ", table)
	for c := range cuts {
		if c.inNode == inNode {
			rules.WriteString(c.rule(table))
		}
	}
	return rules.String()
}

// Part cuts the way between two instances, both ways; all others still reach both.
func (c *Cloud) Part(ctx context.Context, a, b string) error {
	return c.changeCuts(ctx, true, [2]string{a, b}, [2]string{b, a})
}

// Join ends Part.
func (c *Cloud) Join(ctx context.Context, a, b string) error {
	return c.changeCuts(ctx, false, [2]string{a, b}, [2]string{b, a})
}

// Cut drops what goes from one party to another, and lets through what goes back. A party is an instance's id, "members",
// "node" or "pod:" with an address; a pod and the node cannot be both parties, nor two pods. A cut stays when a machine
// loses its power and gets it back.
func (c *Cloud) Cut(ctx context.Context, from, to string) error {
	return c.changeCuts(ctx, true, [2]string{from, to})
}

// Mend ends Cut.
func (c *Cloud) Mend(ctx context.Context, from, to string) error {
	return c.changeCuts(ctx, false, [2]string{from, to})
}

// MendAll ends every Cut and Part.
func (c *Cloud) MendAll(ctx context.Context) error {
	return c.fabric.setCuts(ctx, func(cuts map[cut]bool) { clear(cuts) })
}

func (c *Cloud) changeCuts(ctx context.Context, on bool, ways ...[2]string) error {
	var changed []cut
	for _, way := range ways {
		from, podFrom, err := c.party(way[0])
		if err != nil {
			return err
		}
		to, podTo, err := c.party(way[1])
		if err != nil {
			return err
		}
		if (podFrom || podTo) && slices.ContainsFunc(way[:], func(p string) bool { return p == PartyNode }) || podFrom && podTo {
			return errors.New("a pod can be cut off from instances only")
		}
		changed = append(changed, cut{from: from, to: to, inNode: podFrom || podTo})
	}
	return c.fabric.setCuts(ctx, func(cuts map[cut]bool) {
		for _, one := range changed {
			if on {
				cuts[one] = true
			} else {
				delete(cuts, one)
			}
		}
	})
}

// party returns the addresses of one end of a cut.
func (c *Cloud) party(name string) (addresses string, pod bool, err error) {
	switch {
	case name == PartyMembers:
		return memberRanges, false, nil
	case name == PartyNode:
		return nodeAddress, false, nil
	case strings.HasPrefix(name, PartyPod):
		address, err := netip.ParseAddr(strings.TrimPrefix(name, PartyPod))
		if err != nil {
			return "", false, fmt.Errorf("the pod's address: %w", err)
		}
		return address.String(), true, nil
	}
	m, err := c.machines.machine(name)
	if err != nil {
		return "", false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired.Address, false, nil
}
