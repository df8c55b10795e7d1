package inventory

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

const (
	// PageSize is the largest page that EC2's list calls give.
	PageSize = 1000
	// smallestPage is the size below which a page is not made smaller.
	smallestPage = 100
	// pageRegrows is how long after pages were made smaller larger ones are tried again.
	pageRegrows = 10 * time.Minute
	// listStarts is how often a list is begun whose next page EC2 refuses to give.
	listStarts = 3
)

// paging is how large pages of EC2's lists are asked for. A call is bounded in time, and a full page of instances may take EC2
// longer than that: then pages are halved, and after a while they grow again.
type paging struct {
	clock clock.PassiveClock
	// settle is how soon after pages were made smaller the next time-out says nothing about those: several lists are read side by
	// side.
	settle time.Duration

	mu   sync.Mutex
	size int32
	// changed is when pages were made smaller or larger last, smaller which of the two it was.
	changed time.Time
	smaller bool
}

func newPaging(c clock.PassiveClock, settle time.Duration) *paging {
	return &paging{clock: c, settle: settle, size: PageSize}
}

// next is how large the next page may be.
func (p *paging) next() *int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.clock.Now(); p.size < PageSize && now.Sub(p.changed) >= pageRegrows {
		p.size, p.changed, p.smaller = min(2*p.size, PageSize), now, false
	}
	size := p.size
	return &size
}

// failed takes why a page was not read.
func (p *paging) failed(err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.clock.Now(); !p.smaller || now.Sub(p.changed) >= p.settle {
		p.size, p.changed, p.smaller = max(p.size/2, smallestPage), now, true
	}
}

// pages reads one list from its first page on: more says whether there is another page, next reads it.
type pages[T any] struct {
	more func() bool
	next func() (map[string]T, error)
}

// readPages reads all pages of a list that begin begins. EC2 may refuse the token for the next page, which expires: then the list
// is read from its first page again.
func readPages[T any](p *paging, begin func() pages[T]) (map[string]T, error) {
	for start := 1; ; start++ {
		out, err := readOnce(begin())
		if err == nil {
			return out, nil
		}
		p.failed(err)
		if !tokenRefused(err) || start == listStarts {
			return nil, err
		}
	}
}

func readOnce[T any](list pages[T]) (map[string]T, error) {
	out := map[string]T{}
	for list.more() {
		page, err := list.next()
		if err != nil {
			return nil, err
		}
		maps.Copy(out, page)
	}
	return out, nil
}

// tokenRefused says whether EC2 refused the token for the next page.
// Source: "Error codes for the Amazon EC2 API".
func tokenRefused(err error) bool {
	switch awsapi.Code(err) {
	case "InvalidNextToken", "InvalidPaginationToken":
		return true
	}
	return false
}
