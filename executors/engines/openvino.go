package engines

import "path/filepath"

// InstallOpenVINO is the line that installs the OpenVINO runtime.
const InstallOpenVINO = "autobot-agent engines install openvino"

// OpenVINO returns the folder with the libraries of the highest installed
// version of the OpenVINO runtime. A version without its C library
// (libopenvino_c.so.*) does not count. What is missing is a *MissingError.
func (l Layout) OpenVINO() (dir, version string, err error) {
	versions, err := l.Versions("openvino")
	if err != nil {
		return "", "", err
	}
	for _, v := range versions {
		dir := filepath.Join(l.EnginesDir, "openvino", v)
		if libs, _ := filepath.Glob(filepath.Join(dir, "libopenvino_c.so.*")); len(libs) > 0 {
			return dir, v, nil
		}
	}
	return "", "", &MissingError{"the OpenVINO runtime (libopenvino_c.so)", filepath.Join(l.EnginesDir, "openvino"), InstallOpenVINO}
}
