package bootstrap

import (
	"strings"
	"unicode"
)

// Stages that an instance prints to its console, each as `nairobi-mysql: <stage>`. StageFailed is followed by a colon
// and the reason; what failed is tried again.
const (
	StageStart      = "start"
	StageVolume     = "volume"
	StageConfigure  = "configure"
	StageDownload   = "download"
	StageKeys       = "keys"
	StageInitialise = "initialise"
	StageAdopt      = "adopt"
	StageStarting   = "starting"
	StageStarted    = "started"
	StageFailed     = "failed"
)

const (
	consolePrefix = "nairobi-mysql: "
	// maxStageLength bounds what a machine's console can put into a status.
	maxStageLength = 300
)

// startFailed begins the stage that says why mysqld did not start.
const startFailed = "failed: mysqld did not start: "

// LastStage returns the last stage that a console output holds, without the prefix, for example "volume" or
// "failed: cannot download …"; ok is false when there is none. Kernel and systemd may have written on the same line
// before it. Characters that cannot be printed are left out.
func LastStage(console string) (stage string, ok bool) { return lastStage(console, "") }

// LastStartError returns what mysqld said when it did not start last, as far as a console output tells; ok is false when it
// does not.
func LastStartError(console string) (message string, ok bool) {
	message, ok = lastStage(console, startFailed)
	return strings.TrimPrefix(message, startFailed), ok
}

// lastStage returns the last stage of those that begin with something.
func lastStage(console, beginning string) (stage string, ok bool) {
	at := strings.LastIndex(console, consolePrefix+beginning)
	if at < 0 {
		return "", false
	}
	stage, _, _ = strings.Cut(console[at+len(consolePrefix):], "\n")
	stage = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, stage))
	if runes := []rune(stage); len(runes) > maxStageLength {
		stage = string(runes[:maxStageLength])
	}
	return stage, stage != ""
}
