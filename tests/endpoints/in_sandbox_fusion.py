"""Calls a running platform by SandboxFusion's own client, unchanged."""

import sys

import sandbox_fusion

ROW = {"id": 1, "test": [{"input": {"stdin": "1 2"}, "output": {"stdout": "3"}}]}
SUM = "```python\nprint(sum(map(int, input().split())))\n```"


def main(endpoint: str) -> None:
    sandbox_fusion.set_endpoint(endpoint)
    run = sandbox_fusion.RunCodeRequest(code="print(input() * 2)", stdin="ab", language="python")
    ran = sandbox_fusion.run_code(run)
    assert ran.status == sandbox_fusion.RunStatus.Success, ran
    assert ran.run_result is not None
    assert ran.run_result.stdout == "abab\n", ran
    config = sandbox_fusion.TestConfig(
        dataset_type="CommonOJDataset", language="python", provided_data=ROW
    )
    asked = sandbox_fusion.SubmitRequest(dataset="mine", id=1, completion=SUM, config=config)
    judged = sandbox_fusion.submit(asked)
    assert judged.accepted, judged
    assert [test.passed for test in judged.tests] == [True]
    failing = asked.copy(update={"completion": SUM.replace("sum", "max")})
    assert not sandbox_fusion.submit(failing).accepted
    print("true")


if __name__ == "__main__":
    main(sys.argv[1])
