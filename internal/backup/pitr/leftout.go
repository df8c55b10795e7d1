package pitr

import (
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// notCarried is what a server held and its dump does not carry.
type notCarried []podclient.LeftOut

// unquoted takes quotes off names: the server has others in its messages than LeftOut has.
var unquoted = strings.NewReplacer("`", "", "'", "")

// explain continues the message of a transaction that the server refused: it names what the transaction needs and the dump does not carry, and
// what to do. It is empty where the server names nothing of that.
func (n notCarried) explain(err error) string {
	if !podclient.IsRefusal(err) {
		return ""
	}
	said := unquoted.Replace(err.Error())
	for _, l := range n {
		kind, name, _ := strings.Cut(l.What, " ")
		for _, word := range []string{"function ", "tablespace "} { // "loadable function f"
			name = strings.TrimPrefix(name, word)
		}
		name, _, _ = strings.Cut(name, " (") // "table s.t (encrypted)"
		if name = unquoted.Replace(name); kind != "privilege" && containsName(said, name) {
			return "; the dump does not carry " + l.What + ": restore to a point before that transaction, or from a dump that was taken after it"
		}
	}
	return ""
}

// containsName says whether a text has a name that is not a part of a longer one.
func containsName(text, name string) bool {
	for at := 0; name != ""; {
		found := strings.Index(text[at:], name)
		if found < 0 {
			return false
		}
		begin := at + found
		end := begin + len(name)
		if (begin == 0 || !isWord(text[begin-1])) && (end == len(text) || !isWord(text[end])) {
			return true
		}
		at = begin + 1
	}
	return false
}
