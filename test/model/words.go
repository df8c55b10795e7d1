package model

import (
	"fmt"
	"strings"
)

// name is a member as it is called in words. It is put into words only where somebody reads them.
type name uint8

func (m name) String() string { return fmt.Sprintf("orders-%d", uint8(m)) }

func (m members) String() string {
	var names []string
	for i := range maxMembers {
		if m.has(i) {
			names = append(names, name(i).String())
		}
	}
	return strings.Join(names, ", ")
}

// String lists the transactions: t1 is the second one that was committed, be it a client's or a row.
func (t transactions) String() string {
	var ids []string
	for id := range maxTransactions {
		if t.has(id) {
			ids = append(ids, fmt.Sprintf("t%d", id))
		}
	}
	if ids == nil {
		return "nothing"
	}
	return strings.Join(ids, ", ")
}
