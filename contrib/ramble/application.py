# A Ramble application that runs a plan of tare's and reads its figures. Put this file into applications/tare/ of a
# repository of yours (ramble repo create; ramble repo add), and into ramble.yaml:
#
#   applications:
#     tare:
#       workloads:
#         plan:
#           experiments:
#             nodes: {variables: {plan: /path/plan.yaml, n_nodes: 1, n_ranks: 1}}
import json
import os

from ramble.appkit import *

FIGURES = "{experiment_run_dir}/figures.txt"
LINE = (
    r"(?P<cell>.+): center=(?P<center>\S+) unit=(?P<unit>\S+) "
    r"ratio=(?P<ratio>\S+) low=(?P<low>\S+) high=(?P<high>\S+) verdict=(?P<verdict>.+)"
)


class Tare(ExecutableApplication):
    """Runs a plan of tare's, and has the figures that answer its questions, one context for each cell"""

    name = "tare"

    tags("benchmark", "statistics")

    executable("run", "tare run {plan} --quiet -o {experiment_run_dir}/result", use_mpi=False)
    executable(
        "report",
        "tare report {experiment_run_dir}/result --format json",
        redirect="{experiment_run_dir}/report.json",
        output_capture=OUTPUT_CAPTURE.STDOUT,
        use_mpi=False,
    )

    workload("plan", executables=["run", "report"])

    workload_variable("plan", default="plan.yaml", description="The plan, by its whole path", workloads=["plan"])

    figure_of_merit_context("cell", regex=LINE, output_format="{cell}")

    for figure, of in [("center", "{unit}"), ("ratio", "x"), ("low", "x"), ("high", "x"), ("verdict", "")]:
        figure_of_merit(figure, log_file=FIGURES, fom_regex=LINE, group_name=figure, units=of, contexts=["cell"])

    success_criteria("measured", mode="string", match=r".+: center=.*", file=FIGURES)

    def _prepare_analysis(self, workspace, app_inst=None):
        """Write the cells of the report as lines, which is what figures of merit are found in"""
        report = self.expander.expand_var("{experiment_run_dir}/report.json")
        if not os.path.exists(report):
            return
        with open(report) as f:
            cells = [c for c in json.load(f)["cells"] if c["primary"] and c["verdict"] != "FAILED"]
        with open(self.expander.expand_var(FIGURES), "w") as out:
            for c in cells:
                out.write(
                    f"{c['workload']} in {c['target']}: center={c['center']} unit={c['unit'].replace(' ', '_')} "
                    f"ratio={c['ratio']} low={c['low']} high={c['high']} verdict={c['verdict']}\n"
                )
