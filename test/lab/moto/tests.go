package moto

import (
	"context"
	"fmt"
	"os"
)

// RunTests runs the tests of a package beside one server with the network of Seed, which they share: use gets both before the
// first test. It returns the exit code for TestMain.
func RunTests(tests interface{ Run() int }, options Options, use func(*Server, Seeded)) (code int) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	server, err := Start(ctx, options)
	if err != nil {
		fail(err)
		return code
	}
	defer func() { fail(server.Stop()) }()
	seeded, err := server.Seed(ctx)
	if err != nil {
		fail(err)
		return code
	}
	use(server, seeded)
	return tests.Run()
}
