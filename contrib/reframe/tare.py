# A ReFrame test that runs a plan of tare's on a node and hands its figures on:
#
#   reframe -c tare.py -r --performance-report -S tare.plan=/path/plan.yaml
#
# Each primary figure of the plan becomes a performance variable, WORKLOAD_in_TARGET in the figure's unit, and where the
# plan compares, WORKLOAD_in_TARGET_ratio as well: what it costs against the baseline. Give them references as those of
# any other test. ReFrame decides by its bounds; what is more than chance, tare's verdicts say, which are in report.json.
import json
import os
import re

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError


class TareTest(rfm.RunOnlyRegressionTest):
    '''Runs one plan. Derive from it for a plan of your own with references of your own.'''

    descr = 'plan of tare'
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'tare'
    sourcesdir = None
    # Nothing else should work on the node meanwhile.
    exclusive_access = True
    keep_files = ['report.json']

    #: The plan: a path, from this file's folder on if it does not begin with /.
    plan = variable(str, value='plan.yaml')

    @run_before('run')
    def set_command(self):
        plan = os.path.join(self.prefix, self.plan)
        self.executable_opts = ['run', plan, '--quiet', '-o', 'result']
        self.postrun_cmds = [f'{self.executable} report result --format json > report.json']

    def cells(self):
        '''The figures that answer the plan's questions.'''
        with open(os.path.join(self.stagedir, 'report.json')) as report:
            try:
                cells = json.load(report)['cells']
            except ValueError:
                raise SanityError('tare left no report; the error output of the job says why') from None
        return [c for c in cells if c['primary']]

    @sanity_function
    def everything_was_measured(self):
        @sn.deferrable
        def failed():
            return [f"{c['workload']} in {c['target']}" for c in self.cells() if c['verdict'] == 'FAILED']

        @sn.deferrable
        def measured():
            return len(self.cells())

        return sn.all([
            sn.assert_gt(measured(), 0, 'tare measured nothing'),
            sn.assert_eq(failed(), [], 'these failed: {0}'),
        ])

    @run_before('performance')
    def set_figures(self):
        self.perf_variables = {}
        for cell in self.cells():
            for suffix, target, value, unit in [
                ('', cell['target'], cell['center'], cell['unit']),
                ('', cell['baseline'], cell['baseline_center'], cell['unit']),
                ('_ratio', cell['target'], cell['ratio'], 'x'),
            ]:
                name = re.sub(r'[^A-Za-z0-9]+', '_', f"{cell['workload']}_in_{target}").strip('_')
                if value:  # 0 means that there is no figure
                    self.perf_variables[name + suffix] = sn.make_performance_function(sn.defer(value), unit)


@rfm.simple_test
class tare(TareTest):
    '''The plan that -S tare.plan=PATH names.'''
