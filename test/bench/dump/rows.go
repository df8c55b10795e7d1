package dump

import (
	"io"
	"math/rand/v2"
	"strconv"
	"time"
)

// table is a table of a shop, and how its rows are made.
type table struct {
	name, columns string
	// share of the bytes of all tables.
	share float64
	// row appends row n as LOAD DATA reads it: columns apart by tabs, with nothing that needs a backslash.
	row func(b []byte, r *rand.Rand, n int64) []byte
}

// tables hold what databases hold: numbers, times, names, identifiers that nothing compresses, and text that compresses
// well. Without FLOAT and JSON, so that samples of them are read for their checksums too.
var tables = []table{
	{name: "customers", share: 0.02, row: customer, columns: `id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL, name VARCHAR(60) NOT NULL, city VARCHAR(40) NOT NULL,
		token CHAR(32) NOT NULL, created DATETIME(6) NOT NULL`},
	{name: "orders", share: 0.38, row: order, columns: `id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, placed DATETIME(6) NOT NULL, state VARCHAR(12) NOT NULL,
		total DECIMAL(10,2) NOT NULL, reference CHAR(26) NOT NULL, note VARCHAR(400) NOT NULL, KEY (customer)`},
	{name: "items", share: 0.2, row: item, columns: `order_id BIGINT, line INT, sku CHAR(12) NOT NULL, quantity INT NOT NULL, price DECIMAL(10,2) NOT NULL, discount DECIMAL(5,2),
		PRIMARY KEY (order_id, line)`},
	{name: "events", share: 0.4, row: event, columns: `id BIGINT PRIMARY KEY, at DATETIME(6) NOT NULL, kind VARCHAR(24) NOT NULL, session CHAR(32) NOT NULL, payload TEXT NOT NULL, KEY (at)`},
}

var (
	words = []string{
		"deliver", "after", "the", "gate", "is", "open", "please", "call", "before", "parcel", "was", "returned", "by", "carrier", "second", "attempt", "on", "monday", "morning", "customer",
		"asked", "for", "another", "colour", "replacement", "sent", "free", "of", "charge", "invoice", "to", "company", "leave", "with", "neighbour", "fragile", "gift", "wrap", "no", "receipt",
		"inside", "warehouse", "north", "stock", "low", "partial", "shipment", "remaining", "lines", "follow", "next", "week", "payment", "confirmed", "manually", "refund", "pending", "bank", "transfer", "late",
	}
	states = []string{"placed", "paid", "packed", "shipped", "delivered", "returned", "cancelled"}
	kinds  = []string{"page_view", "search", "add_to_cart", "remove_from_cart", "checkout_started", "payment_failed", "order_placed"}
	cities = []string{"Nairobi", "Mombasa", "Kisumu", "Nakuru", "Eldoret", "Thika", "Malindi", "Kitale", "Garissa", "Kakamega"}
	// begin is the time of the first row.
	begin = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
)

func customer(b []byte, r *rand.Rand, n int64) []byte {
	b = number(b, n)
	first, last := pick(r, words), pick(r, words)
	b = append(append(append(append(append(b, '\t'), first...), '.'), last...), strconv.FormatInt(n, 36)...)
	b = append(append(append(append(b, "@example.org\t"...), first...), ' '), last...)
	b = append(append(b, '\t'), pick(r, cities)...)
	return append(moment(random(append(b, '\t'), r, 32), r, n, 90*time.Second), '\n')
}

func order(b []byte, r *rand.Rand, n int64) []byte {
	b = number(append(number(b, n), '\t'), 1+r.Int64N(n))
	b = append(append(moment(b, r, n, 11*time.Second), '\t'), pick(r, states)...)
	b = random(append(price(append(b, '\t'), r, 900_00), '\t'), r, 26)
	return append(text(append(b, '\t'), r, 4+r.IntN(24)), '\n')
}

func item(b []byte, r *rand.Rand, n int64) []byte {
	b = number(append(number(b, 1+n/3), '\t'), n%3)
	b = random(append(b, '\t'), r, 12)
	b = number(append(b, '\t'), 1+r.Int64N(9))
	b = price(append(b, '\t'), r, 300_00)
	if r.IntN(4) > 0 {
		return append(b, "\t\\N\n"...)
	}
	return append(price(append(b, '\t'), r, 100_00), '\n')
}

func event(b []byte, r *rand.Rand, n int64) []byte {
	b = moment(number(b, n), r, n, 3*time.Second)
	b = append(append(b, '\t'), pick(r, kinds)...)
	b = random(append(b, '\t'), r, 32)
	b = number(append(b, "\t{\"customer\":"...), 1+r.Int64N(n))
	b = random(append(b, ",\"request\":\""...), r, 16)
	b = number(append(b, "\",\"milliseconds\":"...), r.Int64N(2000))
	b = text(append(b, ",\"query\":\""...), r, 2+r.IntN(12))
	return append(b, "\"}\n"...)
}

func number(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// moment appends a tab and a time that grows with n.
func moment(b []byte, r *rand.Rand, n int64, step time.Duration) []byte {
	at := begin.Add(time.Duration(n)*step + time.Duration(r.Int64N(int64(step)))).UTC()
	return at.AppendFormat(append(b, '\t'), "2006-01-02 15:04:05.000000")
}

// price appends an amount of less than below hundredths.
func price(b []byte, r *rand.Rand, below int) []byte {
	hundredths := r.IntN(below)
	b = append(number(b, int64(hundredths/100)), '.')
	return append(b, byte('0'+hundredths/10%10), byte('0'+hundredths%10))
}

// random appends letters and digits, five random bits each.
func random(b []byte, r *rand.Rand, n int) []byte {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	for n > 0 {
		for bits := r.Uint64(); n > 0 && bits >= 1<<5; bits >>= 5 {
			b = append(b, digits[bits&31])
			n--
		}
	}
	return b
}

func text(b []byte, r *rand.Rand, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, pick(r, words)...)
	}
	return b
}

// rows gives a table's rows, the same in every run, until at least size bytes are given and a row is complete.
type rows struct {
	t       table
	r       *rand.Rand
	n       int64
	left    int64
	pending []byte
}

func newRows(t table, size int64) *rows {
	return &rows{t: t, r: rand.New(rand.NewPCG(1, uint64(len(t.name)))), left: size}
}

// piece gives the next rows, of about size bytes. Each piece is loaded in a transaction of its own.
func (s *rows) piece(size int64) *piece { return &piece{s: s, left: min(size, s.left)} }

type piece struct {
	s    *rows
	left int64
}

func (p *piece) reader() io.Reader { return p }

// Read implements io.Reader.
func (p *piece) Read(to []byte) (int, error) {
	s := p.s
	for len(s.pending) < len(to) && p.left > 0 {
		before := len(s.pending)
		s.n++
		s.pending = s.t.row(s.pending, s.r, s.n)
		added := int64(len(s.pending) - before)
		p.left -= added
		s.left -= added
	}
	if len(s.pending) == 0 {
		return 0, io.EOF
	}
	n := copy(to, s.pending)
	s.pending = append(s.pending[:0], s.pending[n:]...)
	return n, nil
}
