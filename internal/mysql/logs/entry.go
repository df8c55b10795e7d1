package logs

// Entry is one entry of a log, and a line of the output.
type Entry struct {
	Time string `json:"time"`
	Origin
	OfErrorLog
	OfQueryLog
}

// Origin says which log of which member an entry is of.
type Origin struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Member    string `json:"member"`
	Log       string `json:"log"`
}

// OfErrorLog is what only entries of the error log have.
type OfErrorLog struct {
	Priority  string `json:"priority,omitempty"` // System, Error, Warning or Note
	Code      string `json:"code,omitempty"`     // MY-…
	Subsystem string `json:"subsystem,omitempty"`
	Message   string `json:"message,omitempty"`
}

// OfQueryLog is what only entries of the slow and the general query log have.
type OfQueryLog struct {
	User       string `json:"user,omitempty"`
	Host       string `json:"host,omitempty"`
	Connection int64  `json:"connection,omitempty"`
	Command    string `json:"command,omitempty"`
	Database   string `json:"database,omitempty"`
	// Figures are Query_time and Lock_time in seconds, Rows_sent, Rows_examined, and a dozen more with log_slow_extra.
	Figures   map[string]float64 `json:"figures,omitempty"`
	Statement string             `json:"statement,omitempty"`
	// Truncated: the entry was longer than entryLimit.
	Truncated bool `json:"truncated,omitempty"`
}
