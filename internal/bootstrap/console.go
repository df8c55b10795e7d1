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

// Progress is how far an instance has come on its way to mysqld.
type Progress struct {
	// Stage is the last stage, without the prefix, for example "volume" or "failed: cannot download …"; empty when there is none.
	Stage string
	// Failure is why a stage failed last, since mysqld has started last; empty when none has. It may be tried again at the moment.
	Failure string
}

// Slow says whether the stage takes minutes when nothing is wrong.
func (p Progress) Slow() bool { return p.Stage == StageDownload || p.Stage == StageInitialise }

// ReadConsole finds the progress in a console output. Kernel and systemd may have written on the same line before a stage. Characters
// that cannot be printed are left out.
func ReadConsole(console string) Progress {
	boot := console[max(0, strings.LastIndex(console, consolePrefix+StageStarted+"\n"), strings.LastIndex(console, consolePrefix+StageStarted+"\r")):]
	failure, _ := strings.CutPrefix(lastStage(boot, StageFailed+": "), StageFailed+": ")
	return Progress{Stage: lastStage(console, ""), Failure: failure}
}

// LastStartError returns what mysqld said when it did not start last, as far as a console output tells; empty when it does not.
func LastStartError(console string) string {
	return strings.TrimPrefix(lastStage(console, startFailed), startFailed)
}

// lastStage returns the last stage of those that begin with something, empty for none.
func lastStage(console, beginning string) string {
	at := strings.LastIndex(console, consolePrefix+beginning)
	if at < 0 {
		return ""
	}
	stage, _, _ := strings.Cut(console[at+len(consolePrefix):], "\n")
	stage = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, stage))
	if runes := []rune(stage); len(runes) > maxStageLength {
		stage = string(runes[:maxStageLength])
	}
	return stage
}
