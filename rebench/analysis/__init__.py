"""Analyses of tables: changes between rankings, compared with changes between seeds.

comparing, study, matrix  comparison of two tables; of all recipes of a run; of all with all
paired                    the runs of the same cells in two tables, by seed
left_out_runs             runs that are left out of a comparison, and why
equal_cells, replicates   equal cells in place of second runs
common_scale, seed_noise  accuracies on one scale; standard deviations of runs
tau                       Kendall's tau of the best K %, for many K at once
seed_tau                  tau between runs of different seeds, with intervals
drop                      tau, seed tau, drop, interval and p at each K
permutation_test          the p-value
conditions                the conditions of the test, and their warnings
p_values                  adjustment of p-values for several K and several tests
overlap, accuracy_change  overlap of the best cells and regret; change of the accuracy
result, result_table      the answer: its numbers and its verdict, as objects and as text
one_table, cell_ranks     reliability of one table; ranks of its cells with intervals
power                     the numbers of cells and seeds that find a drop
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
