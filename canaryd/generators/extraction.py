"""JSON extraction: what a log of orders, corrections and cancellations says in the end."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question
from canaryd.records import JsonValue

_LADDER = (
    "one order",
    "one order out of three",
    "one order out of four, with corrections",
    "a summary of five orders, with corrections and cancellations",
)
_CUSTOMERS = ("Nora Fischer", "Omar Diaz", "Pia Lund", "Quentin Roy", "Rosa Weiss", "Sami Koski", "Tara Nair")
_LETTERS = "KLMPRT"

_ORDER_SCHEMA: JsonValue = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"},
        "customer": {"type": "string"},
        "product": {"type": "string"},
        "quantity": {"type": "integer"},
    },
    "required": ["order", "customer", "product", "quantity"],
    "additionalProperties": False,
}
_SUMMARY_SCHEMA: JsonValue = {
    "type": "object",
    "properties": {
        "open_orders": {"type": "array", "items": {"type": "integer"}},
        "cancelled_orders": {"type": "array", "items": {"type": "integer"}},
        "open_quantity": {"type": "integer"},
        "largest_order": {"type": "integer"},
        "largest_customer": {"type": "string"},
    },
    "required": ["open_orders", "cancelled_orders", "open_quantity", "largest_order", "largest_customer"],
    "additionalProperties": False,
}


def _orders(draw: Draw, count: int) -> list[dict[str, JsonValue]]:
    """Return orders with different numbers, customers and quantities."""
    numbers, customers = draw.sample(range(1001, 1999), count), draw.sample(_CUSTOMERS, count)
    quantities = draw.sample(range(2, 99), count)
    return [
        {
            "order": number,
            "customer": customer,
            "product": f"{draw.choice(_LETTERS)}-{draw.between(100, 999)}",
            "quantity": quantity,
        }
        for number, customer, quantity in zip(sorted(numbers), customers, quantities, strict=True)
    ]


def _correct(draw: Draw, orders: list[dict[str, JsonValue]], *, which: dict[str, JsonValue]) -> str:
    """Change an order's quantity or product, and return the sentence that says so."""
    if draw.below(2):
        taken = {order["quantity"] for order in orders}
        which["quantity"] = draw.choice([quantity for quantity in range(2, 99) if quantity not in taken])
        return f"Correction to order {which['order']}: the quantity is {which['quantity']}."
    which["product"] = f"{draw.choice(_LETTERS)}-{draw.between(100, 999)}"
    return f"Correction to order {which['order']}: the product is {which['product']}."


def _draw(draw: Draw, level: int) -> Question:
    """Return a log and what to extract from it."""
    orders = _orders(draw, (1, 3, 4, 5)[level - 1])
    log = [
        f"Order {order['order']}: {order['customer']} wants {order['quantity']} of {order['product']}."
        for order in orders
    ]
    wanted = draw.choice(orders)
    if level >= 3:
        log += [_correct(draw, orders, which=which) for which in (wanted, draw.choice(orders), wanted)]
    if level < 4:
        task = f"Write order {wanted['order']}, as it stands in the end, as a JSON object with the keys "
        return _question(log, task, target=dict(wanted), schema=_ORDER_SCHEMA)
    cancelled = draw.sample([order for order in orders if order is not wanted], 2)
    log += [f"Order {order['order']} is cancelled." for order in cancelled]
    task = "Write a JSON object about all orders as they stand in the end (lists in ascending order), with the keys "
    return _question(log, task, target=_summary(orders, cancelled), schema=_SUMMARY_SCHEMA)


def _summary(orders: list[dict[str, JsonValue]], cancelled: list[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return what the orders come to."""
    standing = [order for order in orders if order not in cancelled]
    largest = max(standing, key=_quantity)
    return {
        "open_orders": [order["order"] for order in standing],
        "cancelled_orders": [order["order"] for order in orders if order in cancelled],
        "open_quantity": sum(map(_quantity, standing)),
        "largest_order": largest["order"],
        "largest_customer": largest["customer"],
    }


def _quantity(order: dict[str, JsonValue]) -> int:
    """Return an order's quantity."""
    return int(str(order["quantity"]))


def _question(log: list[str], task: str, *, target: dict[str, JsonValue], schema: JsonValue) -> Question:
    """Return the question about a log."""
    keys = ", ".join(f'"{key}"' for key in target)
    options: dict[str, JsonValue] = {"schema": schema, "fallbacks": ["fence", "whole"]}
    return Question("\n".join(log) + f"\n\n{task}{keys}.", target, "json_schema", options)


EXTRACTION = Family("extraction", "JSON extraction from a log", _LADDER, _draw)
