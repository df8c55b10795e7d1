package proxy

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// creates names the element that holds the new id in each creating call.
var creates = map[string]string{
	"RunInstances":        "instanceId",
	"CreateVolume":        "volumeId",
	"CreateSnapshot":      "snapshotId",
	"CreateSecurityGroup": "groupId",
}

// lists names the element that identifies an item in each listing call.
var lists = map[string]string{
	"DescribeInstances":      "instanceId",
	"DescribeInstanceStatus": "instanceId",
	"DescribeVolumes":        "volumeId",
	"DescribeSnapshots":      "snapshotId",
	"DescribeSecurityGroups": "groupId",
}

// hiddenIn returns a hidden id that the call names as a parameter, or "". The
// value of a filter is none: a filter on an unknown id finds nothing.
func (p *Proxy) hiddenIn(c *call) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, values := range c.form {
		if strings.HasPrefix(name, "Filter.") {
			continue
		}
		for _, v := range values {
			if p.isHidden(v) {
				return v
			}
		}
	}
	return ""
}

// isHidden forgets ids whose time has come. The caller holds mu.
func (p *Proxy) isHidden(id string) bool {
	appears, ok := p.hidden[id]
	if ok && !p.clock.Now().Before(appears) {
		delete(p.hidden, id)
		return false
	}
	return ok
}

// hide notes what a successful call created, if a rule of kind Absent matches
// it, and removes what is hidden from an answer that lists.
func (p *Proxy) hide(c *call, status int, body []byte) []byte {
	if status/100 != 2 || c.service != serviceEC2 {
		return body
	}
	if element, ok := creates[c.action]; ok {
		for _, s := range p.choose(c, Absent) {
			appears := p.clock.Now().Add(s.For)
			p.mu.Lock()
			for _, id := range texts(body, element) {
				if _, before := p.hidden[id]; !before && unknown[prefix(id)].code != "" {
					p.hidden[id] = appears
				}
			}
			p.mu.Unlock()
		}
		return body
	}
	element, ok := lists[c.action]
	if !ok {
		return body
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hidden) == 0 {
		return body
	}
	return without(body, element, p.isHidden)
}

// texts returns the text of each element of that name in a document.
func texts(document []byte, element string) []string {
	var found []string
	d := xml.NewDecoder(bytes.NewReader(document))
	for {
		token, err := d.Token()
		if err != nil {
			return found // at the end, or at what no client could read either
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == element {
			var text string
			if d.DecodeElement(&text, &start) == nil {
				found = append(found, text)
			}
		}
	}
}

// span is an <item> in a document: [start, end) in bytes.
type span struct {
	start, end int64
	depth      int
	hidden     bool
	nested     int // items of interest inside
	removed    int // of which were removed
}

// without cuts the items out of a document whose direct child named element
// holds a hidden id, and items left empty by that (a reservation whose
// instances are all hidden). A document that is not XML is returned as it is.
func without(document []byte, element string, hidden func(id string) bool) []byte {
	d := xml.NewDecoder(bytes.NewReader(document))
	var open, cut []span
	depth := 0
	for {
		before := d.InputOffset()
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return document
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			if t.Name.Local == "item" {
				open = append(open, span{start: before, depth: depth})
			}
			if n := len(open); n > 0 && t.Name.Local == element && open[n-1].depth == depth-1 {
				var id string
				if d.DecodeElement(&id, &t) != nil {
					return document
				}
				depth--
				open[n-1].hidden = hidden(id)
				if n > 1 {
					open[n-2].nested++
				}
			}
		case xml.EndElement:
			if n := len(open); n > 0 && open[n-1].depth == depth {
				item := open[n-1]
				open = open[:n-1]
				item.end = d.InputOffset()
				if item.hidden || item.nested > 0 && item.nested == item.removed {
					cut = append(cut, item)
					if n > 1 {
						open[n-2].removed++
					}
				}
			}
			depth--
		}
	}
	return remove(document, cut)
}

// remove cuts spans, which may contain each other, out of a document.
func remove(document []byte, cut []span) []byte {
	slices.SortFunc(cut, func(a, b span) int { return int(a.start - b.start) })
	var kept []byte
	at := int64(0)
	for _, c := range cut {
		if c.start >= at {
			kept = append(kept, document[at:c.start]...)
			at = c.end
		}
	}
	return append(kept, document[at:]...)
}
