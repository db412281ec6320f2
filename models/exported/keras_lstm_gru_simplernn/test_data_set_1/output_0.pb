B
Identity:0JlЅDч»ЅqвџјРХћјџNЅ