"""lab/claims.json: its form, its arithmetic recomputed, and receipts that exist."""
import ast
import json
import operator
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATUSES = {"open", "reproduced", "refuted", "out of reach on this hardware"}
FIELDS = {"id": str, "document": str, "claim": str, "measured_by": str, "figures": dict, "derived": list, "status": str,
          "receipts": list, "notes": str}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def evaluate(formula, figures):
    """The value of a formula of + - * /, numbers and figures' names."""
    def value(node):
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name):
            return figures[node.id]
        raise ValueError(f"'{formula}': only + - * /, numbers and figures")
    return value(ast.parse(formula, mode="eval").body)


def rounds_to(value, stated):
    """Whether the value, rounded to the digits that are stated, is what is stated."""
    digits = len(str(stated).partition(".")[2])
    return round(value, digits) == stated


class Claims(unittest.TestCase):
    def setUp(self):
        self.book = json.loads((ROOT / "lab/claims.json").read_text())

    def test_form(self):
        seen = set()
        for claim in self.book["claims"]:
            self.assertEqual(claim.keys(), FIELDS.keys(), claim.get("id"))
            for field, kind in FIELDS.items():
                self.assertIsInstance(claim[field], kind, f"{claim['id']}: {field}")
            self.assertNotIn(claim["id"], seen)
            seen.add(claim["id"])
            self.assertIn(claim["document"], self.book["documents"], claim["id"])
            self.assertIn(claim["status"], STATUSES, claim["id"])

    def test_arithmetic(self):
        for claim in self.book["claims"]:
            for step in claim["derived"]:
                value = evaluate(step["formula"], claim["figures"])
                self.assertLessEqual(abs(value - step["value"]), step["tolerance"], f"{claim['id']}: {step['what']}")
                if "stated" in step:
                    self.assertTrue(rounds_to(value, step["stated"]), f"{claim['id']}: {value} is stated as {step['stated']}")

    def test_receipts_exist(self):
        there = {path.stem for path in (ROOT / "lab/results").glob("*/*.json")}
        for claim in self.book["claims"]:
            for receipt in claim["receipts"]:
                self.assertIn(receipt, there, claim["id"])

    def test_evaluate_refuses_calls(self):
        with self.assertRaises(ValueError):
            evaluate("print(1)", {})
        with self.assertRaises(KeyError):
            evaluate("a + 1", {})
        self.assertFalse(rounds_to(7.9, 6))


if __name__ == "__main__":
    unittest.main()
