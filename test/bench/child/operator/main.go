// Command operator is the operator of the benchmark of many clusters; see package child.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

func main() {
	if err := child.Run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
