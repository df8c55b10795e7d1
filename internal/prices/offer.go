package prices

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Columns of AWS's file.
const (
	columnTerm      = "TermType"
	columnUnit      = "Unit"
	columnPrice     = "PricePerUnit"
	columnCurrency  = "Currency"
	columnType      = "Instance Type"
	columnTenancy   = "Tenancy"
	columnSystem    = "Operating System"
	columnUsage     = "usageType"
	columnOperation = "operation"
	columnCapacity  = "CapacityStatus"
	columnSoftware  = "Pre Installed S/W"
	columnRegion    = "Region Code"
	columnWhere     = "Location Type"
	publication     = "Publication Date"
)

// How AWS calls an hour of an instance on demand, and what EBS sells.
const (
	usageInstance = "BoxUsage"
	usageStorage  = "EBS:"
)

// mibPerGiB is how many MiB/s AWS sells as one GiB/s.
const mibPerGiB = 1024

// freeTier is what each volume of a type has without a price of its own, which AWS's file does not say:
// https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html
var freeTier = map[string]struct{ iops, throughput int32 }{"gp3": {iops: 3000, throughput: 125}}

// tierEnds are where the prices of operations change, which AWS's file says in words only: https://aws.amazon.com/ebs/pricing
var tierEnds = []int32{32000, 64000}

// volumeTypes are the types that a cluster may have.
var volumeTypes = []string{"gp3", "io2"}

// ReadOffer makes a list of the file index.csv that AWS publishes for EC2 in one region:
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
// The file has hundreds of thousands of rows; it is read row by row.
func ReadOffer(file io.Reader) (List, error) {
	rows := csv.NewReader(file)
	rows.FieldsPerRecord = -1 // what stands above the header has two
	rows.ReuseRecord = true
	o := offer{list: List{Source: "AWS's price list of EC2", Regions: map[string]Region{}}, volumes: map[string]*sold{}}
	var columns map[string]int
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return List{}, fmt.Errorf("read AWS's price list: %w", err)
		}
		switch {
		case columns != nil:
			if err := o.take(line{columns, row}); err != nil {
				return List{}, err
			}
		case len(row) == 2 && row[0] == publication && len(row[1]) >= len("2006-01-02"):
			o.list.AsOf = strings.Clone(row[1][:len("2006-01-02")])
		case slices.Contains(row, columnTerm) && slices.Contains(row, columnUsage):
			columns = map[string]int{}
			for i, name := range row {
				columns[strings.Clone(name)] = i
			}
		}
	}
	if columns == nil {
		return List{}, errors.New("this is no price list of EC2: no row has the names of the columns")
	}
	return o.finish()
}

// line is one row with the names of its columns.
type line struct {
	columns map[string]int
	row     []string
}

// get returns a field. Rows are used again, so what is kept is cloned.
func (l line) get(column string) string {
	if i, has := l.columns[column]; has && i < len(l.row) {
		return strings.Clone(l.row[i])
	}
	return ""
}

// offer is what was read so far.
type offer struct {
	list    List
	region  Region
	name    string
	volumes map[string]*sold
}

// sold is what is known of one type of volumes.
type sold struct {
	giB, throughput float64
	iops            [3]float64
}

func (o *offer) take(l line) error {
	if l.get(columnTerm) != "OnDemand" || l.get(columnWhere) != "AWS Region" { // Local Zones and Wavelength Zones have prices of their own
		return nil
	}
	usage := withoutRegion(l.get(columnUsage))
	instance, storage := strings.HasPrefix(usage, usageInstance) && l.plain(), strings.HasPrefix(usage, usageStorage)
	if !instance && !storage {
		return nil
	}
	price, err := strconv.ParseFloat(l.get(columnPrice), 64)
	if err != nil {
		return fmt.Errorf("the price of %s in AWS's price list is %q, which is no number", usage, l.get(columnPrice))
	}
	region := l.get(columnRegion)
	if o.name != "" && region != o.name {
		return fmt.Errorf("the price list is of %s and of %s: give the file of one region", o.name, region)
	}
	o.name, o.list.Currency = region, l.get(columnCurrency)
	if storage {
		o.takeStorage(usage, l, price)
		return nil
	}
	if o.region.Instances == nil {
		o.region.Instances = map[string]float64{}
	}
	o.region.Instances[l.get(columnType)] = price
	return nil
}

// withoutRegion is a usage type without the short name of the region, which us-east-1 has none of: EUC1-EBS:VolumeP-IOPS.gp3.
func withoutRegion(usage string) string {
	for _, known := range []string{usageInstance, usageStorage} {
		if before, _, found := strings.Cut(usage, known); found && (before == "" || strings.HasSuffix(before, "-")) {
			return strings.TrimPrefix(usage, before)
		}
	}
	return usage
}

// plain says whether an instance has Linux without anything that costs extra, on hardware that others share.
func (l line) plain() bool {
	return l.get(columnSystem) == "Linux" && l.get(columnTenancy) == "Shared" && l.get(columnSoftware) == "NA" &&
		l.get(columnCapacity) == "Used" && l.get(columnOperation) == "RunInstances"
}

// takeStorage takes a price of EBS. AWS calls them EBS:VolumeUsage.gp3, EBS:VolumeP-IOPS.io2.tier2, EBS:VolumeP-Throughput.gp3 and
// EBS:SnapshotUsage.
func (o *offer) takeStorage(usage string, l line, price float64) {
	kind, name, _ := strings.Cut(strings.TrimPrefix(usage, usageStorage), ".")
	if kind == "SnapshotUsage" && name == "" && strings.HasPrefix(l.get(columnUnit), "GB") {
		o.region.SnapshotGiB = price
		return
	}
	name, tier, _ := strings.Cut(name, ".")
	if !slices.Contains(volumeTypes, name) {
		return
	}
	v := o.volumes[name]
	if v == nil {
		v = &sold{}
		o.volumes[name] = v
	}
	switch kind {
	case "VolumeUsage":
		v.giB = price
	case "VolumeP-Throughput":
		if strings.HasPrefix(strings.ToLower(l.get(columnUnit)), "gibps") {
			price /= mibPerGiB
		}
		v.throughput = price
	case "VolumeP-IOPS":
		switch tier {
		case "":
			v.iops[0] = price
		case "tier2":
			v.iops[1] = price
		case "tier3":
			v.iops[2] = price
		}
	}
}

func (o *offer) finish() (List, error) {
	switch {
	case o.name == "":
		return List{}, errors.New("AWS's price list names no region")
	case len(o.region.Instances) == 0:
		return List{}, errors.New("AWS's price list has no instance on demand with Linux")
	}
	o.region.Volumes = map[string]Volume{}
	for name, v := range o.volumes {
		o.region.Volumes[name] = v.prices(name)
	}
	o.list.Regions[o.name] = o.region
	return o.list, o.list.check()
}

func (v *sold) prices(name string) Volume {
	free := freeTier[name]
	out := Volume{GiB: v.giB}
	if free.iops > 0 {
		out.IOPS = append(out.IOPS, Tier{UpTo: free.iops})
	}
	for i, price := range v.iops {
		if price == 0 {
			break
		}
		t := Tier{Price: price}
		if i < len(tierEnds) && v.iops[i+1] != 0 {
			t.UpTo = tierEnds[i]
		}
		out.IOPS = append(out.IOPS, t)
	}
	if v.throughput > 0 {
		out.Throughput = []Tier{{UpTo: free.throughput}, {Price: v.throughput}}
	}
	return out
}
