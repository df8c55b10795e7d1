package podclient

import "context"

// loadedSuffix marks a recovery whose backup is loaded while what follows it is not.
const loadedSuffix = "#loaded"

// MarkLoaded notes that the backup is loaded, so that a recovery that is cut off later goes on from there.
func (v *Visit) MarkLoaded(ctx context.Context, recovery string) error {
	return v.mark(ctx, recovery+loadedSuffix, false)
}

// ResumeLoaded opens a server again whose recovery of this name has loaded the backup; false when it has not.
func (v *Visit) ResumeLoaded(ctx context.Context, recovery string) (bool, error) {
	loaded, _, err := v.recoveryMark(ctx, recovery+loadedSuffix)
	if err != nil || !loaded {
		return false, err
	}
	state, err := v.State(ctx)
	switch {
	case err != nil:
		return false, err
	case state.Writable:
		return false, ErrServes
	}
	return true, v.openUnlogged(ctx)
}
