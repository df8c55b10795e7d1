package model

import (
	"fmt"
	"strings"
)

// Bounds are how often each thing may happen. Each is small: what goes wrong goes wrong in few steps.
type Bounds struct {
	Members int
	// Reached is how many members the operator reaches at least in each of its steps.
	Reached int
	// Writes are the clients' transactions, Kills those of a primary's mysqld.
	Writes, PowerCuts, Kills, Promotions, LostRecords, Certificates, VoterChanges int
	// Transactions limits clients' transactions and rows together; 0 stands for 8.
	Transactions int
}

const defaultTransactions = 8

func (b Bounds) check() error {
	switch {
	case b.Members < 2 || b.Members > maxMembers:
		return fmt.Errorf("members: %d is not within 2 and %d", b.Members, maxMembers)
	case b.Reached < 1 || b.Reached > b.Members:
		return fmt.Errorf("reached: %d is not within 1 and the number of members", b.Reached)
	case b.Transactions < 0 || b.Transactions > maxTransactions:
		return fmt.Errorf("transactions: %d is not within 0 and %d", b.Transactions, maxTransactions)
	}
	return nil
}

// limit is how many transactions there may be.
func (b Bounds) limit() int {
	if b.Transactions == 0 {
		return defaultTransactions
	}
	return b.Transactions
}

func (b Bounds) String() string {
	text := []string{fmt.Sprintf("%d members, at least %d reached", b.Members, b.Reached)}
	for _, limit := range []struct {
		most int
		what string
	}{
		{b.Writes, "writes"}, {b.PowerCuts, "power cuts"}, {b.Kills, "kills"}, {b.Promotions, "promotions"},
		{b.LostRecords, "losses of the records"}, {b.Certificates, "certificates"}, {b.VoterChanges, "changes of the voters"},
	} {
		if limit.most > 0 {
			text = append(text, fmt.Sprintf("%d %s", limit.most, limit.what))
		}
	}
	return strings.Join(text, ", ")
}
