package gtid

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "4f22fa47-71ca-11e1-9e33-c80aa9429562"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"only white space", " \n", ""},
		{"one transaction", uuidA + ":7", uuidA + ":7"},
		{"as the server prints several", uuidA + ":1-5:8,\n" + uuidB + ":1", uuidA + ":1-5:8," + uuidB + ":1"},
		{"unsorted sources", uuidB + ":1, " + uuidA + ":2", uuidA + ":2," + uuidB + ":1"},
		{"touching intervals become one", uuidA + ":1-5:6-9", uuidA + ":1-9"},
		{"overlapping and unsorted intervals", uuidA + ":8-10:1-9", uuidA + ":1-10"},
		{"the same source twice", uuidA + ":1," + uuidA + ":2", uuidA + ":1-2"},
		{"an interval of one", uuidA + ":4-4", uuidA + ":4"},
		{"upper case", strings.ToUpper(uuidA) + ":1", uuidA + ":1"},
		{"a tag", uuidA + ":tag:1-5", uuidA + ":tag:1-5"},
		{"a tag in upper case", uuidA + ":Domain_1:1-3", uuidA + ":domain_1:1-3"},
		{"untagged, then two tags", uuidA + ":1-3:11:b:1-3:15-21:a:8", uuidA + ":1-3:11:a:8:b:1-3:15-21"},
		{"a tag ends with its source", uuidA + ":t:1," + uuidB + ":2", uuidA + ":t:1," + uuidB + ":2"},
		{"the same tag twice", uuidA + ":t:1:u:2:t:2", uuidA + ":t:1-2:u:2"},
		{"a tag that looks like hexadecimal", uuidA + ":abc:1", uuidA + ":abc:1"},
		{"white space everywhere", " " + uuidA + " : 1 - 3 : t : 4 ", uuidA + ":1-3:t:4"},
		{"the largest number", uuidA + ":9223372036854775806", uuidA + ":9223372036854775806"},
		{"the largest interval", uuidA + ":1-9223372036854775806", uuidA + ":1-9223372036854775806"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no interval":               uuidA,
		"an empty interval":         uuidA + ":",
		"an empty part":             uuidA + ":1,," + uuidB + ":1",
		"a trailing comma":          uuidA + ":1,",
		"a short UUID":              uuidA[1:] + ":1",
		"a UUID without hyphens":    strings.ReplaceAll(uuidA, "-", "") + ":1",
		"a UUID with a wrong digit": "g" + uuidA[1:] + ":1",
		"a hyphen out of place":     "3e11fa4-771ca-11e1-9e33-c80aa9429562:1",
		"zero":                      uuidA + ":0",
		"backwards":                 uuidA + ":5-3",
		"three ends":                uuidA + ":1-2-3",
		"a sign":                    uuidA + ":+1",
		"negative":                  uuidA + ":-1",
		"too large":                 uuidA + ":9223372036854775807",
		"far too large":             uuidA + ":99999999999999999999",
		"a tag without interval":    uuidA + ":tag",
		"a tag after a tag":         uuidA + ":1:tag",
		"a tag too long":            uuidA + ":" + strings.Repeat("t", 33) + ":1",
		"a tag with a bad letter":   uuidA + ":t-g:1",
		"words":                     "nothing",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Parse(text); err == nil {
				t.Errorf("parsed %q as %q", text, got)
			}
		})
	}
}

func TestAlgebra(t *testing.T) {
	a := MustParse(uuidA + ":1-10:t:1-4")
	b := MustParse(uuidA + ":5-12," + uuidB + ":1")
	for _, tc := range []struct {
		name string
		got  Set
		want string
	}{
		{"union", a.Union(b), uuidA + ":1-12:t:1-4," + uuidB + ":1"},
		{"intersection", a.Intersect(b), uuidA + ":5-10"},
		{"difference", a.Subtract(b), uuidA + ":1-4:t:1-4"},
		{"difference the other way", b.Subtract(a), uuidA + ":11-12," + uuidB + ":1"},
		{"a hole", MustParse(uuidA + ":1-9").Subtract(MustParse(uuidA + ":4-6")), uuidA + ":1-3:7-9"},
		{"a tagged number is not the untagged one", MustParse(uuidA + ":1").Subtract(MustParse(uuidA + ":t:1")), uuidA + ":1"},
		{"held by one", HeldByAtLeast(1, []Set{a, b, {}}), a.Union(b).String()},
		{"held by none", HeldByAtLeast(3, []Set{a, b, {}}), ""},
		{"held by nobody at all", HeldByAtLeast(0, nil), ""},
		{"below one counts as one", HeldByAtLeast(-3, []Set{a}), a.String()},
		{"without one server, tagged or not", a.Union(b).WithoutSource(strings.ToUpper(uuidA)), uuidB + ":1"},
		{"without an unknown server", a.WithoutSource(uuidB), a.String()},
		{"without the only server", a.WithoutSource(uuidA), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got.String() != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

func TestCountNeverWraps(t *testing.T) {
	full := "1-9223372036854775806"
	two := MustParse(uuidA + ":" + full + "," + uuidB + ":" + full)
	if got, want := two.Count(), uint64(2)*9223372036854775806; got != want {
		t.Errorf("two full sources: got %d, want %d", got, want)
	}
	three := two.Union(MustParse(uuidA + ":t:" + full))
	if got := three.Count(); got != ^uint64(0) {
		t.Errorf("three full sources: got %d, want the largest uint64", got)
	}
}

// model is the naive reference: one map entry a transaction.
type model map[string]bool

// world is a random handful of small sets, each as text and as model, so that every operation meets overlaps,
// touching intervals, tags and empty sets.
type world struct {
	texts  []string
	models []model
}

func (world) Generate(r *rand.Rand, _ int) reflect.Value {
	w := world{}
	for range 1 + r.Intn(5) {
		m := model{}
		var parts []string
		for range r.Intn(6) {
			key := []string{uuidA, uuidB, uuidA + ":t", uuidA + ":u"}[r.Intn(4)]
			start := 1 + r.Intn(20)
			end := start + r.Intn(8)
			parts = append(parts, fmt.Sprintf("%s:%d-%d", key, start, end))
			for n := start; n <= end; n++ {
				m[fmt.Sprintf("%s:%d", key, n)] = true
			}
		}
		w.texts = append(w.texts, strings.Join(parts, ","))
		w.models = append(w.models, m)
	}
	return reflect.ValueOf(w)
}

// same tells whether s holds exactly the transactions of m, asked one by one and by number.
func same(s Set, m model) bool {
	for gtid := range m {
		if !s.Contains(MustParse(gtid)) {
			return false
		}
	}
	return s.Count() == uint64(len(m))
}

func TestPropertiesAgainstModel(t *testing.T) {
	property := func(w world) bool {
		sets := make([]Set, len(w.texts))
		for n, text := range w.texts {
			sets[n] = MustParse(text)
		}
		a, ma := sets[0], w.models[0]
		b, mb := sets[len(sets)-1], w.models[len(sets)-1]
		before := a.String() + "|" + b.String()

		union, intersection, difference := model{}, model{}, model{}
		held := map[string]int{}
		for _, m := range w.models {
			for gtid := range m {
				held[gtid]++
			}
		}
		for gtid := range ma {
			union[gtid] = true
			if mb[gtid] {
				intersection[gtid] = true
			} else {
				difference[gtid] = true
			}
		}
		for gtid := range mb {
			union[gtid] = true
		}
		for k := 1; k <= len(sets)+1; k++ {
			want := model{}
			for gtid, n := range held {
				if n >= k {
					want[gtid] = true
				}
			}
			if !same(HeldByAtLeast(k, sets), want) {
				return false
			}
		}
		return same(a, ma) && same(a.Union(b), union) && same(a.Intersect(b), intersection) &&
			same(a.Subtract(b), difference) &&
			a.Contains(b) == (len(intersection) == len(mb)) &&
			a.Equal(b) == reflect.DeepEqual(ma, mb) && a.Equal(b) == (a.String() == b.String()) &&
			a.IsEmpty() == (len(ma) == 0) &&
			MustParse(a.String()).Equal(a) &&
			before == a.String()+"|"+b.String()
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 3000, Rand: rand.New(rand.NewSource(1))}); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", uuidA + ":1-5:8", uuidA + ":t:1:u:2," + uuidB + ":3", uuidA + ":0", ":", ",", uuidA + ":1-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil {
			t.Fatalf("%q was parsed, its canonical form %q is not: %v", text, s, err)
		}
		if !again.Equal(s) || again.String() != s.String() {
			t.Fatalf("%q changes on a round trip: %q, then %q", text, s, again)
		}
		if !s.Subtract(s).IsEmpty() || !s.Union(s).Equal(s) || !s.Contains(s) {
			t.Fatalf("%q breaks the algebra", text)
		}
	})
}

func TestFirst(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	set := MustParse(a + ":3-4:9:tag:1," + b + ":7")
	for n, want := range map[int]string{0: "", 2: a + ":3 " + a + ":4", 9: a + ":3 " + a + ":4 " + a + ":9 " + a + ":tag:1 " + b + ":7"} {
		if got := strings.Join(set.First(n), " "); got != want {
			t.Errorf("the first %d are %q, not %q", n, got, want)
		}
	}
}
