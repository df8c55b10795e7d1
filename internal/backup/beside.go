package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// besideTime bounds reading how the tables are made.
const besideTime = time.Minute

// beside is what a server holds beside its tables, and how these are made. It is read before the server stands still: thousands of accounts or views take
// seconds. Sums of what it was read from say later whether it is still the same; without them it is read then.
type beside struct {
	accounts                    []string
	definitions                 podclient.Definitions
	accountsSum, definitionsSum string
	// tables are how the tables are made: before the moment, and after look in it. It is nil where that took too long.
	tables tableSums
}

// readBeside reads what can be read now, with how tables are made.
func readBeside(ctx context.Context, v *podclient.Visit, tables []podclient.Table) beside {
	var b beside
	if sum, err := v.AccountsSum(ctx); err == nil {
		if statements, err := v.Accounts(ctx); err == nil {
			b.accounts, b.accountsSum = statements, sum
		}
	}
	if sum, err := v.Inventory().Sum(ctx); err == nil {
		if found, err := v.Inventory().Definitions(ctx); err == nil {
			b.definitions, b.definitionsSum = found, sum
		}
	}
	if len(tables) > 0 {
		err := v.Within(ctx, besideTime, func(ctx context.Context) (err error) {
			b.tables, err = sumTables(ctx, v, tables)
			return err
		})
		if err != nil {
			b.tables = nil
		}
	}
	return b
}

// accountsNow are the accounts of the moment in which the server stands still. They are in no snapshot.
func (b *beside) accountsNow(ctx context.Context, v *podclient.Visit) ([]string, error) {
	sum, err := v.AccountsSum(ctx)
	if err != nil {
		return nil, err
	}
	if sum == b.accountsSum {
		return b.accounts, nil
	}
	return v.Accounts(ctx)
}

// look brings the definitions to those of the moment that the session's snapshot shows, by another connection.
func (b *beside) look(ctx context.Context, v *podclient.Visit, tables map[podclient.Table]bool, connect func(context.Context) (*podclient.Visit, error)) error {
	moment, err := v.Inventory().Sum(ctx)
	if err != nil {
		return err
	}
	other, err := connect(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	if err := b.tables.look(ctx, tables, other); err != nil || moment == b.definitionsSum {
		return err
	}
	if b.definitions, err = other.Inventory().Definitions(ctx); err != nil {
		return err
	}
	now, err := other.Inventory().Sum(ctx)
	if err == nil && now != moment {
		err = fmt.Errorf("%w: views, stored programs, databases or tablespaces were changed meanwhile", ErrMoved)
	}
	return err
}

// leftOut is what no dump carries, or a restore may not be able to make.
func (b *beside) leftOut(ctx context.Context, v *podclient.Visit) ([]podclient.LeftOut, error) {
	left, err := v.Inventory().LeftOut(ctx)
	for _, p := range b.definitions.Programs {
		if p.Broken != "" {
			left = append(left, podclient.LeftOut{What: p.Title(), Why: "the server cannot use it (" + p.Broken +
				"), and a restore may not be able to make it and to grant the privileges on it; repair or drop it"})
		}
	}
	return left, err
}
