package sysload

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// readNPU looks for neural processors: the kernel's accelerator drivers make
// one node per device in /dev/accel. Busy is the mean time the devices have
// worked since boot; known is false when the driver does not tell (Intel's
// does, in npu_busy_time_us).
func readNPU(devRoot, sysRoot string) (present bool, busy time.Duration, known bool) {
	nodes, err := filepath.Glob(filepath.Join(devRoot, "accel", "accel*"))
	if err != nil || len(nodes) == 0 {
		return false, 0, false
	}
	var total time.Duration
	for _, node := range nodes {
		file := filepath.Join(sysRoot, "class", "accel", filepath.Base(node), "device", "npu_busy_time_us")
		b, err := os.ReadFile(file)
		if err != nil {
			return true, 0, false
		}
		us, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return true, 0, false
		}
		total += time.Duration(us) * time.Microsecond
	}
	return true, total / time.Duration(len(nodes)), true
}
