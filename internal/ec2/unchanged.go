package ec2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/aws/smithy-go/middleware"
)

// A page of a thousand instances is 5 MB of XML, which takes a third of a second to decode, and nearly always says what it said a minute
// before. So sweeps keep a digest of each page, and what it said; one that is the same to the byte is not decoded again. EC2 does not
// promise an order: a page that has another is decoded, as one that says something new is.

// mostKnown is how long a page may be to be compared, in bytes; a longer one is decoded as it comes.
const mostKnown = 64 << 20

type digest [sha256.Size]byte

// listing is a whole list of EC2's as it was when it was last read. It belongs to the sweep, of which there is one at a time.
type listing[T any] struct {
	pages []page
	found map[string]T
	// size is how long its longest page was, in bytes.
	size int
}

// page is what one page of a listing showed.
type page struct {
	sum digest
	ids []string
}

// comparison is between one page of an answer and the page in the same place of the list before.
type comparison struct {
	before *digest // nil: there is none
	// sum is of the page that came; compared is false when there is none, same says that it is as before, and was not decoded.
	sum            digest
	compared, same bool
	// text is where the page is read into; nothing refers to it once the page is decoded.
	text []byte
}

type comparisonKey struct{}

// readPages reads all pages of a list, those that are as they were in last from there, and makes last what was found. With a nil last
// every page is decoded, and nothing is kept. A list that fails leaves last as it was.
func readPages[T any](ctx context.Context, pages *paging, last *listing[T], more func() bool, next func(context.Context) (map[string]T, error)) (map[string]T, error) {
	now, listed := listing[T]{found: map[string]T{}}, 0
	var text []byte // for all pages, because large ones that become garbage are what the process's memory is largest by
	for n := 0; more(); n++ {
		c := comparison{text: text}
		pageCtx := ctx
		if last != nil {
			if text == nil {
				c.text = make([]byte, 0, last.size+bytes.MinRead)
			}
			if n < len(last.pages) {
				c.before = &last.pages[n].sum
			}
			pageCtx = context.WithValue(ctx, comparisonKey{}, &c)
		}
		items, err := next(pageCtx)
		if err != nil {
			pages.failed(err)
			return nil, err
		}
		text, now.size = c.text, max(now.size, len(c.text))
		if c.same {
			for _, id := range last.pages[n].ids {
				items[id] = last.found[id]
			}
		}
		maps.Copy(now.found, items)
		if !c.compared {
			now.pages = append(now.pages, page{})
			continue
		}
		now.pages = append(now.pages, page{sum: c.sum, ids: slices.Collect(maps.Keys(items))})
		listed += len(items)
	}
	if listed > len(now.found) {
		now.pages = nil // something moved from page to page meanwhile, and is kept as only one of them has it
	}
	if last != nil {
		*last = now
	}
	return now.found, nil
}

// unchanged gives the SDK an empty page, with the token of the next one, in the place of a page that is as before, where the context
// asks for it. It reads the answer whole before; one that breaks off is the SDK's to complain of.
func unchanged(stack *middleware.Stack) error {
	return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("NairobiUnchanged",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleDeserialize(ctx, in)
			c, asked := ctx.Value(comparisonKey{}).(*comparison)
			response := succeeded(out, err)
			if !asked || response == nil {
				return out, meta, err
			}
			c.compared, c.same = false, false // this may be another attempt
			buffer := bytes.NewBuffer(c.text[:0])
			_, err = buffer.ReadFrom(io.LimitReader(response.Body, mostKnown))
			text := buffer.Bytes()
			c.text = text
			body := io.MultiReader(bytes.NewReader(text), response.Body)
			switch {
			case err != nil:
				body = io.MultiReader(bytes.NewReader(text), broken{err})
			case len(text) < mostKnown:
				var token []byte
				c.sum, token = digestOf(text)
				c.compared, c.same = true, c.before != nil && c.sum == *c.before
				if c.same {
					body = bytes.NewReader(fmt.Appendf(nil, "<Unchanged>%s</Unchanged>", token))
				}
			}
			response.Body = answer{body, response.Body}
			return out, meta, nil
		}), "OperationDeserializer", middleware.After)
}

// broken is the end of what broke off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// digestOf is of a page without what EC2 makes anew for each: the id of the request, and the token of the next page, which it returns
// as it stands, nil if there is none.
func digestOf(text []byte) (sum digest, token []byte) {
	h := sha256.New()
	head, _, tail := cutElement(text, "requestId")
	for _, part := range [][]byte{head, tail} {
		before, found, after := cutElement(part, "nextToken")
		if found != nil {
			token = found
		}
		_, _ = h.Write(before) // a hash takes everything
		_, _ = h.Write(after)
	}
	return digest(h.Sum(nil)), token
}

// cutElement splits text around the first element of that name, which has no attributes. Without one all of it is before.
func cutElement(text []byte, name string) (before, element, after []byte) {
	begin := bytes.Index(text, []byte("<"+name+">"))
	if begin < 0 {
		return text, nil, nil
	}
	end := []byte("</" + name + ">")
	length := bytes.Index(text[begin:], end)
	if length < 0 {
		return text, nil, nil
	}
	length += len(end)
	return text[:begin], text[begin : begin+length], text[begin+length:]
}
