package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Room is what a member has, in bytes; 0 where it is not known.
type Room struct{ Memory, Volume uint64 }

const (
	// memoryPercent of an instance's memory is what the operator's unit lets mysqld have.
	memoryPercent = 90
	// redoPercent of the volume is the most that the redo log may take: data, binary logs and temporary tables are there too.
	redoPercent = 50
)

// held are sizes of memory that mysqld holds from its start on: together they have to fit.
var held = []string{"innodb_buffer_pool_size", "innodb_log_buffer_size", "key_buffer_size"}

// taken are sizes of memory that mysqld takes when it needs it: each alone has to fit.
var taken = []string{
	"binlog_cache_size", "binlog_stmt_cache_size", "bulk_insert_buffer_size", "histogram_generation_max_mem_size", "innodb_ddl_buffer_size",
	"innodb_ft_cache_size", "innodb_ft_result_cache_limit", "innodb_ft_total_cache_size", "innodb_sort_buffer_size", "join_buffer_size",
	"max_heap_table_size", "myisam_sort_buffer_size", "preload_buffer_size", "query_prealloc_size", "read_buffer_size",
	"read_rnd_buffer_size", "replica_pending_jobs_size_max", "select_into_buffer_size", "set_operations_buffer_size", "sort_buffer_size",
	"temptable_max_ram", "thread_stack", "tmp_table_size", "transaction_prealloc_size",
}

// HasSizes says whether any of the settings is compared with what a member has.
func HasSizes(spec map[string]string) bool {
	for name := range spec {
		if name == redoLog || slices.Contains(held, name) || slices.Contains(taken, name) {
			return true
		}
	}
	return false
}

// redoLog is the size of the redo log on the volume.
const redoLog = "innodb_redo_log_capacity"

// TooLarge returns those of the settings that a member has no room for, each with why and what to do.
func TooLarge(spec map[string]string, room Room) map[string]string {
	found := map[string]string{}
	if limit := room.Memory / 100 * memoryPercent; limit > 0 {
		for _, name := range append(slices.Clone(taken), held...) {
			if size := sizeOf(spec[name]); size > limit {
				found[name] = fmt.Sprintf("%s=%s is more than the %s that mysqld may take of the instance's %s; make it smaller, or choose a larger spec.aws.instanceType", name, spec[name], inWords(limit), inWords(room.Memory))
			}
		}
		if name, sum := together(spec); sum > limit && found[name] == "" {
			found[name] = fmt.Sprintf("%s=%s and what else mysqld holds are %s, more than the %s that it may take of the instance's %s; make one smaller, or choose a larger spec.aws.instanceType", name, spec[name], inWords(sum), inWords(limit), inWords(room.Memory))
		}
	}
	if limit := room.Volume / 100 * redoPercent; limit > 0 && sizeOf(spec[redoLog]) > limit {
		found[redoLog] = fmt.Sprintf("%s=%s is more than half of the volume's %s; make it smaller, or raise spec.storage.size", redoLog, spec[redoLog], inWords(room.Volume))
	}
	return found
}

// together returns the sum of what is held, and the setting that contributes most to it.
func together(spec map[string]string) (largest string, sum uint64) {
	for _, name := range held {
		size := sizeOf(spec[name])
		if largest == "" || size > sizeOf(spec[largest]) {
			largest = name
		}
		sum += min(size, math.MaxUint64-sum)
	}
	return largest, sum
}

// sizeOf is a size in bytes as MySQL reads it; 0 for what is none. What is more than 64 bits hold is as large as they can be.
func sizeOf(value string) uint64 {
	digits := strings.TrimRight(value, "kKmMgGtTpPeE")
	if len(value)-len(digits) > 1 {
		return 0
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		if strings.Trim(digits, "0123456789") == "" && digits != "" {
			return math.MaxUint64
		}
		return 0
	}
	shift := 0
	if digits != value {
		shift = 10 * (strings.Index("KMGTPE", strings.ToUpper(value[len(digits):])) + 1)
	}
	if n > math.MaxUint64>>shift {
		return math.MaxUint64
	}
	return n << shift
}

// inWords is a size as people write it.
func inWords(bytes uint64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
