package observe

import (
	"fmt"
	"math/big"
)

// ExchangeDir is where an instance and the operator exchange files: the server's secure_file_priv.
const ExchangeDir = "/etc/nairobi-mysql/exchange/"

// serialText prints a serial number as the operator names certificates: 16 or more lower-case hexadecimal digits.
func serialText(n *big.Int) string {
	return fmt.Sprintf("%016x", n)
}
