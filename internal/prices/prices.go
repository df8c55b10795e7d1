// Package prices computes what a cluster costs in a month by AWS's list prices.
package prices

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// HoursPerMonth is the month by which AWS's calculator turns prices by the hour into prices by the month.
const HoursPerMonth = 730

// longestSource is how long the source of a list may be: status repeats it.
const longestSource = 253

// ErrInvalid is wrapped by every error of Parse.
var ErrInvalid = errors.New("invalid list of prices")

//go:embed list.yaml
var shipped []byte

// Shipped is the list of this build.
var Shipped = sync.OnceValue(func() List {
	l, err := Parse(shipped)
	if err != nil {
		panic(err) // a test parses it
	}
	return l
})

// List is a dated list of prices, in one currency and without taxes.
type List struct {
	// AsOf is the day of which the prices are, as 2026-01-02. Source says where they come from.
	AsOf   string `json:"asOf"`
	Source string `json:"source"`
	// Currency is a code of ISO 4217, for example USD.
	Currency string            `json:"currency"`
	Regions  map[string]Region `json:"regions"`
}

// Region is what is sold in one region.
type Region struct {
	// Instances is the price of an hour of each instance type, on demand, with Linux.
	Instances map[string]float64 `json:"instances"`
	// Volumes are the prices of each volume type.
	Volumes map[string]Volume `json:"volumes"`
	// SnapshotGiB is the price of a GiB of snapshots for a month.
	SnapshotGiB float64 `json:"snapshotGiB"`
}

// Volume is what a volume of one type costs for a month.
type Volume struct {
	GiB float64 `json:"giB"`
	// IOPS are the prices of a provisioned operation a second, Throughput those of a MiB/s.
	IOPS       []Tier `json:"iops,omitempty"`
	Throughput []Tier `json:"throughput,omitempty"`
}

// Tier is the price of each unit above that of the tier before it, up to and including UpTo; the last tier has no end.
type Tier struct {
	UpTo  int32   `json:"upTo,omitempty"`
	Price float64 `json:"price"`
}

// Parse reads a list from YAML. Every error wraps ErrInvalid and names the entry.
func Parse(text []byte) (List, error) {
	var l List
	if err := yaml.UnmarshalStrict(text, &l); err != nil {
		return List{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := l.check(); err != nil {
		return List{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return l, nil
}

func (l List) check() error {
	if _, err := time.Parse(time.DateOnly, l.AsOf); err != nil {
		return fmt.Errorf("asOf must be a day such as 2026-01-02, and is %q", l.AsOf)
	}
	if len(l.Currency) != 3 {
		return fmt.Errorf("currency must be a code of three letters such as USD, and is %q", l.Currency)
	}
	if len(l.Source) > longestSource {
		return fmt.Errorf("source must have at most %d characters", longestSource)
	}
	if len(l.Regions) == 0 {
		return errors.New("regions names no region")
	}
	for name, region := range l.Regions {
		if err := region.check(); err != nil {
			return fmt.Errorf("regions.%s.%w", name, err)
		}
	}
	return nil
}

func (r Region) check() error {
	for name, price := range r.Instances {
		if !valid(price) {
			return fmt.Errorf("instances.%s: a price must be 0 or more", name)
		}
	}
	for name, v := range r.Volumes {
		if !valid(v.GiB) {
			return fmt.Errorf("volumes.%s.giB: a price must be 0 or more", name)
		}
		for field, tiers := range map[string][]Tier{"iops": v.IOPS, "throughput": v.Throughput} {
			if err := check(tiers); err != nil {
				return fmt.Errorf("volumes.%s.%s: %w", name, field, err)
			}
		}
	}
	if !valid(r.SnapshotGiB) {
		return errors.New("snapshotGiB: a price must be 0 or more")
	}
	return nil
}

func check(tiers []Tier) error {
	var from int32
	for i, t := range tiers {
		switch last := i == len(tiers)-1; {
		case !valid(t.Price):
			return errors.New("a price must be 0 or more")
		case last && t.UpTo != 0:
			return errors.New("the last tier has no upTo")
		case !last && t.UpTo <= from:
			return errors.New("each upTo must be larger than the one before it")
		}
		from = t.UpTo
	}
	return nil
}

func valid(price float64) bool { return price >= 0 && !math.IsInf(price, 0) }

// of returns what a number of units costs.
func of(tiers []Tier, units int32) float64 {
	var sum float64
	var from int32
	for _, t := range tiers {
		to := units
		if t.UpTo != 0 {
			to = min(units, t.UpTo)
		}
		if to > from {
			sum += float64(to-from) * t.Price
			from = to
		}
	}
	return sum
}

// Holdings are what a cluster has in EC2 that costs money by the hour or by the month.
type Holdings struct {
	Region string
	// Instances are the types of those that run, one for each.
	Instances []string
	Volumes   []Disk
	// SnapshotGiB is what the snapshots hold.
	SnapshotGiB int64
}

// Disk is one volume. GiB, IOPS in operations a second and Throughput in MiB/s are what is provisioned.
type Disk struct {
	Type                  string
	GiB, IOPS, Throughput int32
}

// Cost is what holdings cost for a month.
type Cost struct {
	Instances, Volumes, Snapshots float64
	// Unknown names what the list has no price of, each once, sorted. It is in none of the sums.
	Unknown []string
}

// Total is the sum.
func (c Cost) Total() float64 { return c.Instances + c.Volumes + c.Snapshots }

// Monthly returns what holdings cost for a month of HoursPerMonth, and whether the list has their region.
func (l List) Monthly(h Holdings) (c Cost, known bool) {
	region, known := l.Regions[h.Region]
	if !known {
		return Cost{}, false
	}
	for _, name := range h.Instances {
		price, known := region.Instances[name]
		if !known {
			c.Unknown = append(c.Unknown, name)
		}
		c.Instances += price * HoursPerMonth
	}
	for _, d := range h.Volumes {
		v, known := region.Volumes[d.Type]
		if !known {
			c.Unknown = append(c.Unknown, d.Type)
		}
		c.Volumes += float64(d.GiB)*v.GiB + of(v.IOPS, d.IOPS) + of(v.Throughput, d.Throughput)
	}
	c.Snapshots = float64(h.SnapshotGiB) * region.SnapshotGiB
	if h.SnapshotGiB > 0 && region.SnapshotGiB == 0 {
		c.Unknown = append(c.Unknown, "snapshots")
	}
	slices.Sort(c.Unknown)
	c.Unknown = slices.Compact(c.Unknown)
	return c, true
}
