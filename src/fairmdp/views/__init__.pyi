# What `fairmdp.views` offers, loaded at first use.
from . import plots
from .audit import evaluation_data, evaluation_text
from .briefing import Occasion, briefing
from .data import (
    as_json,
    certificate_data,
    comparison_data,
    estimate_data,
    frontier_data,
    grid_data,
    problem_data,
    simulation_data,
    solution_data,
    solution_json,
    verdict_data,
)
from .dispatch import (
    world_comparison_data,
    world_comparison_text,
    world_simulation_data,
    world_simulation_text,
)
from .exports import policy_csv, quotas_csv
from .html import report_html
from .inspection import inspection_data, inspection_text
from .online import online_data, online_text
from .records import log_audit_data, log_audit_text
from .text import (
    certificate_text,
    comparison_text,
    estimate_text,
    frontier_text,
    grid_text,
    simulation_text,
    size_text,
    solution_text,
    verdict_text,
)
from .welfare import (
    welfare_data,
    welfare_frontier_data,
    welfare_frontier_text,
    welfare_json,
    welfare_text,
    welfare_verdict_data,
    welfare_verdict_text,
)
from .world import (
    quota_shares,
    world_data,
    world_frontier_data,
    world_frontier_text,
    world_size_text,
    world_text,
    world_verdict_data,
    world_verdict_text,
)

__all__ = [
    "Occasion",
    "as_json",
    "briefing",
    "certificate_data",
    "certificate_text",
    "comparison_data",
    "comparison_text",
    "estimate_data",
    "estimate_text",
    "evaluation_data",
    "evaluation_text",
    "frontier_data",
    "frontier_text",
    "grid_data",
    "grid_text",
    "inspection_data",
    "inspection_text",
    "log_audit_data",
    "log_audit_text",
    "online_data",
    "online_text",
    "plots",
    "policy_csv",
    "problem_data",
    "quota_shares",
    "quotas_csv",
    "report_html",
    "simulation_data",
    "simulation_text",
    "size_text",
    "solution_data",
    "solution_json",
    "solution_text",
    "verdict_data",
    "verdict_text",
    "welfare_data",
    "welfare_frontier_data",
    "welfare_frontier_text",
    "welfare_json",
    "welfare_text",
    "welfare_verdict_data",
    "welfare_verdict_text",
    "world_comparison_data",
    "world_comparison_text",
    "world_data",
    "world_frontier_data",
    "world_frontier_text",
    "world_simulation_data",
    "world_simulation_text",
    "world_size_text",
    "world_text",
    "world_verdict_data",
    "world_verdict_text",
]
