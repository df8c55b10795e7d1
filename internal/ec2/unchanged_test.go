package ec2

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pager answers DescribeInstances by pages, with tokens and ids of requests that are new each time.
type pager struct {
	pages [][]string // items
	// broken cuts the answer off in the middle of that page, refused refuses the page so often; -1 and 0 for none.
	broken, refused int
	calls           int
	tokens          map[string]int
}

// RoundTrip implements http.RoundTripper.
func (p *pager) RoundTrip(r *http.Request) (*http.Response, error) {
	p.calls++
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	n := 0
	if token := form.Get("NextToken"); token != "" {
		known := false
		if n, known = p.tokens[token]; !known {
			return says(http.StatusBadRequest, `<Response><Errors><Error><Code>InvalidNextToken</Code><Message>`+token+`</Message></Error></Errors></Response>`), nil
		}
	}
	if p.refused > 0 {
		p.refused--
		return says(http.StatusServiceUnavailable, `<Response><Errors><Error><Code>Unavailable</Code><Message>later</Message></Error></Errors></Response>`), nil
	}
	text := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>%d</requestId><reservationSet>%s</reservationSet>`,
		p.calls, strings.Join(p.pages[n], ""))
	if n+1 < len(p.pages) {
		token := fmt.Sprintf("token-%d", p.calls)
		p.tokens = map[string]int{token: n + 1} // that of before is of no use any more
		text += "<nextToken>" + token + "</nextToken>"
	}
	answer := says(http.StatusOK, text+"</DescribeInstancesResponse>")
	if n == p.broken {
		answer.Body = io.NopCloser(io.MultiReader(strings.NewReader(text[:len(text)/2]), broken{io.ErrUnexpectedEOF}))
	}
	return answer, nil
}

func machine(id, tag string) string {
	return `<item><reservationId>r-1</reservationId><instancesSet><item><instanceId>` + id + `</instanceId><instanceState><code>16</code><name>running</name></instanceState>` +
		`<tagSet><item><key>mysql.alx.ke/member</key><value>` + tag + `</value></item></tagSet></item></instancesSet></item>`
}

func pagedCloud(t *testing.T, pages ...[]string) (*Cloud, *pager) {
	t.Helper()
	p := &pager{pages: pages, broken: -1}
	cloud, err := NewFactory(Options{Middleware: func(http.RoundTripper) http.RoundTripper { return p }}).Cloud(t.Context(), Account{
		Region: "us-east-1", Static: &StaticCredentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "example"}})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, p
}

// decodedAnew are the ids whose value is not the very one of before.
func decodedAnew(before, now map[string]Instance) []string {
	var ids []string
	for id, i := range now {
		if reflect.ValueOf(i.Tags).Pointer() != reflect.ValueOf(before[id].Tags).Pointer() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestPagesAsBeforeAreNotDecoded: what a sweep finds is what EC2 says, whichever pages it decodes; and it decodes those that say something else.
func TestPagesAsBeforeAreNotDecoded(t *testing.T) {
	cloud, p := pagedCloud(t, []string{machine("i-1", "a"), machine("i-2", "b")}, []string{machine("i-3", "c"), machine("i-4", "d")}, []string{machine("i-5", "e")})
	var last listing[Instance]
	list := func(calls int) map[string]Instance {
		t.Helper()
		p.calls = 0
		found, err := cloud.listInstances(t.Context(), &last)
		if err != nil || p.calls != calls {
			t.Fatalf("%d calls (%v), want %d", p.calls, err, calls)
		}
		return found
	}
	before := list(3)
	if len(before) != 5 {
		t.Fatalf("%d instances", len(before))
	}
	for _, step := range []struct {
		name   string
		change func()
		anew   []string
		all    int
		calls  int
	}{
		{"nothing", func() {}, nil, 5, 3},
		{"a tag", func() { p.pages[1][1] = machine("i-4", "other") }, []string{"i-3", "i-4"}, 5, 3},
		{"the order", func() { slices.Reverse(p.pages[0]) }, []string{"i-1", "i-2"}, 5, 3},
		{"the last page goes", func() { p.pages = p.pages[:2] }, nil, 4, 2},
		{"a page comes", func() { p.pages = append(p.pages, []string{machine("i-6", "f")}) }, []string{"i-6"}, 5, 3},
		{"an empty page", func() { p.pages[1] = nil }, nil, 3, 3},
		{"it is refused for once", func() { p.refused = 1 }, nil, 3, 4},
		{"pages change places", func() { p.pages[0], p.pages[2] = p.pages[2], p.pages[0] }, []string{"i-1", "i-2", "i-6"}, 3, 3},
	} {
		step.change()
		now := list(step.calls)
		if anew := decodedAnew(before, now); !slices.Equal(anew, step.anew) || len(now) != step.all {
			t.Errorf("%s: %v of %d were decoded, want %v of %d", step.name, anew, len(now), step.anew, step.all)
		}
		before = now
	}
	if before["i-2"].Tags["mysql.alx.ke/member"] != "b" || before["i-6"].Tags["mysql.alx.ke/member"] != "f" {
		t.Errorf("found: %v", before)
	}

	// What is on two pages is kept as one of them has it, so that neither is taken for known.
	p.pages = [][]string{{machine("i-1", "old")}, {machine("i-1", "new")}}
	before = list(2)
	p.pages[1] = nil
	if now := list(2); now["i-1"].Tags["mysql.alx.ke/member"] != "old" || before["i-1"].Tags["mysql.alx.ke/member"] != "new" {
		t.Errorf("%v, and before %v", now, before)
	}
	p.pages = [][]string{{machine("i-1", "a")}, {machine("i-2", "b")}, {machine("i-6", "f")}}
	before = list(3)

	p.broken = 2
	if found, err := cloud.listInstances(t.Context(), &last); !IsUnreachable(err) || found != nil {
		t.Errorf("a list that breaks off: %v (%v)", found, err)
	}
	p.broken = -1
	if anew := decodedAnew(before, list(3)); len(anew) != 0 {
		t.Errorf("%v were decoded after a list that broke off", anew)
	}
	if found, err := cloud.listInstances(t.Context(), nil); err != nil || len(decodedAnew(before, found)) != 3 {
		t.Errorf("a list that is compared with none has values of another (%v)", err)
	}
}

// TestUnchangedPagesSayTheSame: whatever happens to instances between sweeps, in whatever order, the list is the one that is decoded whole.
func TestUnchangedPagesSayTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	cloud, p := pagedCloud(t)
	tags := map[string]string{}
	for n := range 12 {
		tags[fmt.Sprintf("i-%02d", n)] = "0"
	}
	var last listing[Instance]
	same := 0
	var before map[string]Instance
	for round := range 300 {
		if ids := slices.Sorted(maps.Keys(tags)); round > 0 {
			switch id := ids[random.IntN(len(ids))]; random.IntN(6) {
			case 0:
				tags[id] = fmt.Sprint(random.IntN(3))
			case 1:
				tags[fmt.Sprintf("i-%02d", random.IntN(30))] = "0"
			case 2:
				if len(ids) > 1 {
					delete(tags, id)
				}
			}
		}
		p.pages = nil
		for ids := range slices.Chunk(slices.Sorted(maps.Keys(tags)), 4) {
			var items []string
			for _, id := range ids {
				items = append(items, machine(id, tags[id]))
			}
			if random.IntN(10) == 0 {
				slices.Reverse(items)
			}
			p.pages = append(p.pages, items)
		}
		found, err := cloud.listInstances(t.Context(), &last)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := cloud.listInstances(t.Context(), nil)
		if err != nil || !reflect.DeepEqual(found, whole) {
			t.Fatalf("round %d: %v, and decoded whole %v (%v)", round, found, whole, err)
		}
		same += len(found) - len(decodedAnew(before, found))
		before = found
	}
	if same < 500 {
		t.Errorf("only %d values were those of before", same)
	}
}

func TestDigests(t *testing.T) {
	page := func(id, token, items string) []byte {
		return []byte("<R><requestId>" + id + "</requestId><set>" + items + "</set>" + token + "</R>")
	}
	sum, token := digestOf(page("1", "<nextToken>x</nextToken>", "<item>a</item>"))
	if string(token) != "<nextToken>x</nextToken>" {
		t.Errorf("token %s", token)
	}
	for name, other := range map[string][]byte{
		"another request": page("2", "<nextToken>x</nextToken>", "<item>a</item>"),
		"another token":   page("1", "<nextToken>y</nextToken>", "<item>a</item>"),
		"no token":        page("1", "", "<item>a</item>"),
		"no request":      []byte("<R><set><item>a</item></set></R>"),
	} {
		if got, _ := digestOf(other); got != sum {
			t.Errorf("%s: another digest", name)
		}
	}
	for name, other := range map[string][]byte{
		"another item":    page("1", "<nextToken>x</nextToken>", "<item>b</item>"),
		"more items":      page("1", "<nextToken>x</nextToken>", "<item>a</item><item>a</item>"),
		"cut off":         page("1", "<nextToken>x</nextToken>", "<item>a</item>")[:40],
		"an open element": []byte("<R><requestId>1<set><item>a</item></set></R>"),
		"nothing":         nil,
	} {
		if got, _ := digestOf(other); got == sum {
			t.Errorf("%s: the same digest", name)
		}
	}
}
