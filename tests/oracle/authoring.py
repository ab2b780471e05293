"""Checks the output of passes that use `plugin_api::tir` (`script/tests/authoring`) with TVM: each module must be
well-formed, and TVM must print it unchanged. If TVM has a schedule for the same change, the schedule must produce the
same module. The exit code is 1 if a check fails.
"""

import pathlib
import sys

import tvm
import tvm_ffi
from tvm.s_tir import Schedule

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "script/tests/authoring"
HEADER = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n"


def split(schedule):
    for loop in schedule.get_loops(schedule.get_sblock("B")):
        schedule.split(loop, [None, 4])


def tile(schedule):
    i, j = schedule.get_loops(schedule.get_sblock("B"))
    (i_0, i_1), (j_0, j_1) = schedule.split(i, [None, 4]), schedule.split(j, [None, 4])
    schedule.reorder(i_0, j_0, i_1, j_1)


SCHEDULES = {"split_scheduled": split, "tile": tile}


def read(text):
    return tvm.script.from_source(text if text.startswith("# from") else HEADER + text, check_well_formed=True)


def main():
    wrong = 0
    for path in sorted(FOLDER.glob("*.py")):
        before, _, after = path.read_text().rpartition("# after\n")
        module = read(after)
        faults = [] if module.script() == after.rstrip("\n") else ["TVM prints it differently"]
        if path.stem in SCHEDULES:
            schedule = Schedule(read(before))
            schedule.work_on("f")
            SCHEDULES[path.stem](schedule)
            if not tvm_ffi.structural_equal(schedule.mod, module):
                faults.append(f"TVM's schedule produces a different module:\n{schedule.mod.script()}")
        wrong += bool(faults)
        print(path.stem, *(faults or ["as in TVM"]), sep=": ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
