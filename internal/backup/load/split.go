package load

import (
	"bytes"
	"errors"
	"io"
)

// longest is the longest statement that is kept in memory, in bytes. mysqldump puts so many rows into one that it has about 1 MiB.
const longest = 4 << 20

// Statement is one of a dump, without the comments before it.
type Statement struct {
	// Text is valid until the next one is read.
	Text []byte
	// First and Last say whether the statement begins and ends here: one that is longer than longest comes in pieces.
	First, Last bool
}

// Splitter splits what mysqldump wrote of tables into statements. It knows what the mysql client knows of statements that mysqldump
// writes: quotes, and comments from "--" to the end of a line. Comments in between are parts of a statement.
type Splitter struct {
	r io.Reader
	// buffer[at:] was read and is not given yet; looked of it through.
	buffer     []byte
	at, looked int
	inside     bool // of a statement whose beginning was given
	quote      byte // in which quotes it is, 0 outside
	skip       bool // the next byte is after a backslash
	end        error
}

// NewSplitter reads a dump from r.
func NewSplitter(r io.Reader) *Splitter { return newSplitter(r, longest) }

func newSplitter(r io.Reader, longest int) *Splitter {
	return &Splitter{r: r, buffer: make([]byte, 0, longest)}
}

// Next returns the next statement or the next piece of one. After the last it returns io.EOF, or the reader's own error.
func (s *Splitter) Next() (Statement, error) {
	for {
		begun := s.inside || s.begins()
		if begun && s.ends() {
			return s.give(true), nil
		}
		if begun && len(s.buffer)-s.at == cap(s.buffer) {
			return s.give(false), nil
		}
		if s.end != nil {
			if begun && errors.Is(s.end, io.EOF) {
				return s.give(true), nil
			}
			return Statement{}, s.end
		}
		s.more()
	}
}

// give returns what was looked through.
func (s *Splitter) give(last bool) Statement {
	statement := Statement{Text: s.buffer[s.at : s.at+s.looked], First: !s.inside, Last: last}
	s.at, s.looked, s.inside = s.at+s.looked, 0, !last
	return statement
}

// more reads on.
func (s *Splitter) more() {
	if len(s.buffer) == cap(s.buffer) || s.at == len(s.buffer) {
		s.buffer = s.buffer[:copy(s.buffer, s.buffer[s.at:])]
		s.at = 0
	}
	n, err := s.r.Read(s.buffer[len(s.buffer):cap(s.buffer)])
	s.buffer, s.end = s.buffer[:len(s.buffer)+n], err
}

// begins passes over what is between statements, and says whether one begins.
func (s *Splitter) begins() bool {
	for s.looked == 0 {
		rest := bytes.TrimLeft(s.buffer[s.at:], " \t\r\n")
		s.at = len(s.buffer) - len(rest)
		switch {
		case len(rest) == 0, len(rest) == 1 && rest[0] == '-' && s.end == nil:
			return false
		case !bytes.HasPrefix(rest, []byte("--")):
			return true
		}
		line := bytes.IndexByte(rest, '\n')
		if line < 0 {
			s.buffer = s.buffer[:s.at+2] // by which what is still to come is known for a comment
			return false
		}
		s.at += line + 1
	}
	return true
}

// ends looks for the end of the statement in what was not looked through.
func (s *Splitter) ends() bool {
	for i, c := range s.buffer[s.at+s.looked:] {
		switch {
		case s.skip:
			s.skip = false
		case s.quote != 0:
			if c == s.quote { // a doubled one is the end and the beginning
				s.quote = 0
			} else if c == '\\' && s.quote != '`' {
				s.skip = true
			}
		case c == '\'', c == '`', c == '"':
			s.quote = c
		case c == ';':
			s.looked += i + 1
			return true
		}
	}
	s.looked = len(s.buffer) - s.at
	return false
}
