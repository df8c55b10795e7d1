package prices_test

import (
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/internal/prices"
)

// TestShippedList: the list of this build is readable, and has what the samples use.
func TestShippedList(t *testing.T) {
	l := prices.Shipped()
	region := l.Regions["us-east-1"]
	for _, name := range []string{"t4g.medium", "m7g.large", "r7g.xlarge", "m6i.2xlarge"} {
		if region.Instances[name] <= 0 {
			t.Errorf("%s has no price", name)
		}
	}
	for _, name := range []string{"gp3", "io2"} {
		if region.Volumes[name].GiB <= 0 {
			t.Errorf("%s has no price", name)
		}
	}
}

func TestMonthly(t *testing.T) {
	l := prices.Shipped()
	hour := l.Regions["us-east-1"].Instances["m7g.large"]
	for name, c := range map[string]struct {
		have prices.Holdings
		want prices.Cost
	}{
		"nothing": {},
		"three members": {
			have: prices.Holdings{Instances: []string{"m7g.large", "m7g.large", "m7g.large"}, Volumes: []prices.Disk{{Type: "gp3", GiB: 100, IOPS: 3000, Throughput: 125}}, SnapshotGiB: 100},
			want: prices.Cost{Instances: 3 * 730 * hour, Volumes: 8, Snapshots: 5},
		},
		"what is above the free operations and MiB/s": {
			have: prices.Holdings{Volumes: []prices.Disk{{Type: "gp3", GiB: 1, IOPS: 4000, Throughput: 225}}},
			want: prices.Cost{Volumes: 0.08 + 1000*0.005 + 100*0.04},
		},
		"each operation at the price of its tier": {
			have: prices.Holdings{Volumes: []prices.Disk{{Type: "io2", GiB: 0, IOPS: 65000}}},
			want: prices.Cost{Volumes: 32000*0.065 + 32000*0.0455 + 1000*0.03185},
		},
		"what the list does not name": {
			have: prices.Holdings{Instances: []string{"x99.large", "m7g.large", "x99.large"}, Volumes: []prices.Disk{{Type: "st9", GiB: 100}}},
			want: prices.Cost{Instances: 730 * hour, Unknown: []string{"st9", "x99.large"}},
		},
	} {
		c.have.Region = "us-east-1"
		got, known := l.Monthly(c.have)
		same := func(a, b float64) bool { return math.Abs(a-b) < 0.005 }
		if !known || !same(got.Instances, c.want.Instances) || !same(got.Volumes, c.want.Volumes) || !same(got.Snapshots, c.want.Snapshots) || !slices.Equal(got.Unknown, c.want.Unknown) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if _, known := l.Monthly(prices.Holdings{Region: "mars-north-1"}); known {
		t.Error("a region that the list does not have has a price")
	}
}

func TestParseRefuses(t *testing.T) {
	const head = "{asOf: \"2026-01-02\", currency: USD, regions: "
	for text, says := range map[string]string{
		"asOf: yesterday":                                            "asOf",
		head + "{}}":                                                 "no region",
		head + "{r: {instances: {a: -1}}}}":                          "regions.r.instances.a",
		head + "{r: {volume: {}}}}":                                  "volume",
		head + "{r: {snapshotGiB: -1}}}":                             "regions.r.snapshotGiB",
		head + "{r: {volumes: {v: {giB: -1}}}}}":                     "regions.r.volumes.v.giB",
		"{asOf: \"2026-01-02\", currency: US dollars}":               "currency",
		head + "{r: {volumes: {v: {iops: [{upTo: 9, price: 1}]}}}}}": "last tier",
		head + "{r: {volumes: {v: {throughput: [{upTo: 9, price: 1}, {upTo: 3, price: 1}, {price: 1}]}}}}}": "larger",
	} {
		if _, err := prices.Parse([]byte(text)); !errors.Is(err, prices.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// TestReadOffer: of the many prices of one instance type that AWS's file has, the one on demand with Linux is taken, and the list reads
// as one that a person wrote.
func TestReadOffer(t *testing.T) {
	file, err := os.Open("testdata/index.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l, err := prices.ReadOffer(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := prices.Parse(text); err != nil || !reflect.DeepEqual(again, l) {
		t.Errorf("read again it is %+v, %v", again, err)
	}
	want := `asOf: "2026-10-05"
currency: USD
regions:
  eu-central-1:
    instances:
      m7g.large: 0.0897
    snapshotGiB: 0.054
    volumes:
      gp3:
        giB: 0.0952
        iops:
        - price: 0
          upTo: 3000
        - price: 0.006
        throughput:
        - price: 0
          upTo: 125
        - price: 0.0476
      io2:
        giB: 0.149
        iops:
        - price: 0.078
          upTo: 32000
        - price: 0.0546
          upTo: 64000
        - price: 0.03822
source: AWS's price list of EC2
`
	if string(text) != want {
		t.Errorf("got\n%s", text)
	}
}

func TestReadOfferRefuses(t *testing.T) {
	whole, err := os.ReadFile("testdata/index.csv")
	if err != nil {
		t.Fatal(err)
	}
	for says, text := range map[string]string{
		"no row has the names":    "a,b\n1,2\n",
		"file of one region":      string(whole) + strings.ReplaceAll(lastLine(string(whole)), "eu-central-1", "eu-west-1"),
		"which is no number":      strings.ReplaceAll(string(whole), "0.0897000000", "free"),
		"no instance on demand":   strings.ReplaceAll(string(whole), "BoxUsage", "Other"),
		"names no region":         strings.ReplaceAll(string(whole), "eu-central-1", ""),
		"asOf must be a day such": strings.ReplaceAll(string(whole), "Publication Date", "Published"),
	} {
		if _, err := prices.ReadOffer(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func lastLine(text string) string {
	lines := strings.SplitAfter(strings.TrimRight(text, "\n"), "\n")
	return strings.Replace(lines[len(lines)-1], "SnapshotArchiveStorage", "SnapshotUsage", 1) + "\n"
}
