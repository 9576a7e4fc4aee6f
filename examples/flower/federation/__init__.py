"""A Flower app: any method of fedstas on a task of fedstas, dealt to the nodes."""
