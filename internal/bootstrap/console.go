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

// LastStage returns the last stage that a console output holds, without the prefix, for example "volume" or
// "failed: cannot download …"; ok is false when there is none. Kernel and systemd may have written on the same line
// before it. Characters that cannot be printed are left out.
func LastStage(console string) (stage string, ok bool) {
	at := strings.LastIndex(console, consolePrefix)
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
