"""Judges: an LLM scores acts by a rubric; the judged text is fenced, so that it cannot dictate its score.

JudgeConfig(rubric, model, ask, tries=1)      `ask` is any async function from a question to raw text
score_with_llm_judge(trajectory, config, cache) -> (score in 0..1, cache)
score_group(state, replies, config)           n replies to one state compared in one question
judging(name, settings, home)                 the judge of the settings, with its file and budget: `judge_act`
"""

from conch.judge.answer import Judgement
from conch.judge.judge import Judge, answers_file, judging
from conch.judge.question import JudgeQuestion
from conch.judge.relative import score_group
from conch.judge.rubric import read_rubric
from conch.judge.score import JudgeConfig, judge_key, judge_version, score_with_llm_judge

__all__ = [
    "Judge",
    "JudgeConfig",
    "JudgeQuestion",
    "Judgement",
    "answers_file",
    "judge_key",
    "judge_version",
    "judging",
    "read_rubric",
    "score_group",
    "score_with_llm_judge",
]
